"""One split of one set, one way of training.

"ordinary": the network is trained without dropout; a tenth of the training rows chooses learning
rate and length, and it is trained again on all of them. "paper": dropout 0.5 and 10 000 epochs.
"class": as ordinary, without one of three or more classes; its test rows are out of distribution.

`dims.fit` and `posterior.sample` then give the default answer. The validation part of the split
(15 % of the rows, which the network has not seen) weighs network and draws in a second answer. The
opponent is an ensemble of five, twice: its learning rate and length are chosen by a tenth of the
training rows, as those of the network, and by the validation part.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import dims
from dims.model.training import perceptron
from dims.prediction.metrics.detection import ood_auroc
from dims_paper.datasets.splits import Split
from dims_paper.datasets.uci import load_uci
from far_inputs import far_inputs
from uci_classification.networks import HIDDEN, paper_network

PROTOCOLS = ("ordinary", "paper", "class")
MEMBERS = 5


def run_one(name: str, protocol: str, seed: int, draws: int, networks: Path) -> dict[str, Any]:
    """Scores of one split, and what was chosen."""
    split, unseen = load_uci(name, seed), {}
    if protocol == "class":
        split, unseen["class"] = without_class(split, seed % split.classes)
    train = (split.train_inputs, split.train_targets)
    held_out = (split.validation_inputs, split.validation_targets)

    def make() -> nn.Module:
        return perceptron((train[0].shape[1], *HIDDEN, split.classes), nn.SiLU)

    def ensemble(members: int, **options: Any) -> dims.Draws:
        return dims.train_ensemble(
            make, train, "classification", members, seed=seed, progress=False, **options
        )

    clock = Clock()
    if protocol == "paper":
        network: nn.Module = paper_network(name, seed, networks)
    else:
        network = ensemble(1).to_module(0)
    posterior = dims.fit(network, train, "classification", progress=False)
    made = posterior.sample(draws, save_at=(1.0,), seed=seed, progress=False)
    clock.stop("default")
    weighed = made.stacked(held_out)
    clock.start()
    answers = {"ensemble": ensemble(MEMBERS)}
    clock.stop("ensemble")
    answers["ensemble, held out"] = ensemble(MEMBERS, validation=held_out)
    clock.stop("ensemble, held out")
    assert weighed.mixture is not None
    answers |= {
        "network": dims.Draws.from_parameters(posterior.surface, _row(posterior.surface.initial)),
        "minimum": dims.Draws.from_parameters(posterior.surface, _row(posterior.map_parameters)),
        "linla": posterior.sample(100, "linla", seed=seed, progress=False),
        "draws alone": replace(made, mixture=None),
        "default": made,
        "held out": weighed,
    }
    far = far_inputs(split.test_inputs, seed) | unseen
    return {
        "seconds": clock.seconds,
        "prior_precision": float(posterior.prior_precision),
        "gradients": float(made.evaluations.double().mean()),
        "weights": weighed.mixture.named_weights(made.times.tolist()),
        "scores": {key: _scores(each, split, far) for key, each in answers.items()},
    }


def without_class(split: Split, left_out: int) -> tuple[Split, Tensor]:
    """The rows of the other classes, numbered anew, and the test inputs of the one left out."""
    if split.classes < 3:
        raise ValueError("protocol: a class can be left out of three or more")
    parts: dict[str, Tensor] = {}
    for part in ("train", "validation", "test"):
        inputs, targets = getattr(split, f"{part}_inputs"), getattr(split, f"{part}_targets")
        kept = targets != left_out
        parts[f"{part}_inputs"] = inputs[kept]
        parts[f"{part}_targets"] = targets[kept] - (targets[kept] > left_out).long()
    names = tuple(n for number, n in enumerate(split.class_names) if number != left_out)
    fewer = replace(split, classes=split.classes - 1, class_names=names, **parts)
    return fewer, split.test_inputs[split.test_targets == left_out]


class Clock:
    """Seconds of one thing after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        self.began = time.perf_counter()

    def stop(self, name: str) -> None:
        self.seconds[name] = time.perf_counter() - self.began
        self.start()


def _row(theta: Tensor) -> Tensor:
    return theta.unsqueeze(0)


def _scores(draws: dims.Draws, split: Split, far: dict[str, Tensor]) -> dict[str, float]:
    here = draws.predict(split.test_inputs)
    found = here.metrics(split.test_targets)["ensemble"]
    auroc = {
        f"auroc {name}": float(ood_auroc(here.entropy, draws.predict(x).entropy))
        for name, x in far.items()
        if len(x)
    }
    return {"nll": found["nll"], "accuracy": found["accuracy"], "ece": found["ece"], **auroc}
