"""One split of one set, one way of training.

"ordinary": the network is trained without dropout; a tenth of the training rows chooses learning
rate and length, and it is trained again on all of them. "paper": dropout 0.5 and 10 000 epochs.
"class": as ordinary, without one of three or more classes; its test rows are out of distribution.

`dims.fit` and `posterior.sample` then give the default answer. The opponent is an ensemble of five
that is trained as the network. "five": as ordinary, but draws start from these five networks.

With held-out rows, the validation part of the split (15 % of the rows), the learning rates and
lengths of network and ensemble are chosen by these rows instead; that of "paper" is as before. The
same rows then weigh the network and its draws, and the draws learn them at last (`refit`). To see
what either use is worth there are also the draws that have not, and an ensemble that is trained
again on training and held-out rows for the lengths that a part of them, as many, has chosen.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.model.training import perceptron
from dims.prediction.metrics.detection import ood_auroc
from dims.sampling.draws.mixture import usual_weights
from dims_paper.datasets.splits import Split
from dims_paper.datasets.uci import load_uci
from far_inputs import far_inputs
from uci_classification.networks import HIDDEN, paper_network

PROTOCOLS = ("ordinary", "five", "paper", "class")
MEMBERS = 5
MASKS = 100  # of MC dropout


def run_one(name: str, protocol: str, seed: int, draws: int, networks: Path) -> dict[str, Any]:
    """Scores of one split, and what was chosen, without and with held-out rows."""
    task = Task(name, protocol, seed, draws, networks)
    found, more = task.without_held_out(), task.with_held_out()
    return {**found, **more, **{k: found[k] | more[k] for k in ("seconds", "scores")}}


class Task:
    """The rows of a split, and who is asked about them."""

    def __init__(self, name: str, protocol: str, seed: int, draws: int, networks: Path) -> None:
        self.name, self.protocol, self.seed = name, protocol, seed
        self.draws, self.networks = draws, networks
        split, unseen = load_uci(name, seed), {}
        if protocol == "class":
            split, unseen["class"] = without_class(split, seed % split.classes)
        self.split, self.far = split, far_inputs(split.test_inputs, seed) | unseen
        self.train = (split.train_inputs, split.train_targets)
        self.held_out = (split.validation_inputs, split.validation_targets)

    def without_held_out(self) -> dict[str, Any]:
        clock = Clock()
        answers = {"ensemble": self._ensemble(MEMBERS)}
        clock.stop("ensemble")
        networks = self._starts(answers["ensemble"])
        posterior = dims.fit(networks, self.train, "classification", progress=False)
        made = posterior.sample(self.draws, seed=self.seed, progress=False)
        clock.stop("default")
        first = replace(posterior, others=())
        answers |= {
            "network": self._alone(made),
            "minimum": _point(made.surface, posterior.map_parameters),
            "linla": first.sample(100, "linla", seed=self.seed, progress=False),
            "draws alone": replace(made, mixture=None),
            "default": made,
        }
        if self.protocol == "paper":
            answers["mc dropout"] = self._mc_dropout()
        return {
            "seconds": self._with_training(clock.seconds),
            "prior_precision": float(posterior.prior_precision),
            "gradients": float(made.evaluations.double().mean()),
            "scores": self._scored(answers),
        }

    def with_held_out(self) -> dict[str, Any]:
        clock, rows = Clock(), {"validation": self.held_out}
        answers = {"ensemble, held out": self._ensemble(MEMBERS, **rows)}
        clock.stop("ensemble, held out")
        networks = self._starts(answers["ensemble, held out"], **rows)
        asked = {**rows, "refit": True, "progress": False}
        posterior = dims.fit(networks, self.train, "classification", **asked)
        made = posterior.sample(self.draws, seed=self.seed, progress=False)
        clock.stop("held out")
        assert made.mixture is not None
        assert posterior.before is not None
        answers |= {
            "ensemble, trained again": self._ensemble_of_all(),
            "held out, not learnt": posterior.before.sample(
                self.draws, seed=self.seed, progress=False
            ),
            "network, held out": self._alone(made, **rows),
            "held out": made,
            "held out, usual weights": replace(
                made, mixture=replace(made.mixture, weights=usual_weights(made))
            ),
        }
        return {
            "seconds": self._with_training(clock.seconds),
            "weights": made.mixture.named_weights(made.times.tolist()),
            "scores": self._scored(answers),
        }

    def _starts(self, ensemble: dims.Draws, **options: Any) -> list[nn.Module]:
        """The networks that draws start from."""
        if self.protocol == "paper":
            return [paper_network(self.name, self.seed, self.networks)]
        if self.protocol == "five":
            return list(ensemble.modules())
        return list(self._ensemble(1, **options).modules())

    def _alone(self, made: dims.Draws, **options: Any) -> dims.Draws:
        """The network that we begin with; one of five would have been chosen with the others."""
        if self.protocol == "five":
            return self._ensemble(1, **options)
        return _point(made.surface, made.surface.initial)

    def _with_training(self, seconds: dict[str, float]) -> dict[str, float]:
        """Where we begin with the ensemble's networks, their training is ours as well."""
        if self.protocol != "five":
            return seconds
        theirs, ours = seconds
        return {theirs: seconds[theirs], ours: seconds[ours] + seconds[theirs]}

    def _mc_dropout(self) -> dims.Draws:
        """Masks of the dropout that these networks were trained with."""
        network = paper_network(self.name, self.seed, self.networks, dropout=True)
        return dims.mc_dropout(network, self.train, "classification", MASKS, seed=self.seed)

    def _ensemble_of_all(self) -> dims.Draws:
        pairs = zip(self.train, self.held_out, strict=True)
        inputs, targets = (torch.cat(pair) for pair in pairs)
        part = len(self.held_out[1]) / len(targets)
        return self._ensemble(MEMBERS, data=(inputs, targets), validation=part)

    def _ensemble(self, members: int, data: Any = None, **options: Any) -> dims.Draws:
        def make() -> nn.Module:
            return perceptron((self.train[0].shape[1], *HIDDEN, self.split.classes), nn.SiLU)

        more = {"seed": self.seed, "progress": False, **options}
        rows = self.train if data is None else data
        return dims.train_ensemble(make, rows, "classification", members, **more)

    def _scored(self, answers: dict[str, dims.Draws]) -> dict[str, dict[str, float]]:
        return {key: _scores(each, self.split, self.far) for key, each in answers.items()}


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
    """Core-seconds of one thing after the other, on the one core that a run uses.

    Other programs beside it make the wall clock slower, and not these.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        self.began = time.process_time()

    def stop(self, name: str) -> None:
        self.seconds[name] = time.process_time() - self.began
        self.start()


def _point(surface: dims.LossSurface, theta: Tensor) -> dims.Draws:
    return dims.Draws.from_parameters(surface, theta.unsqueeze(0))


def _scores(draws: dims.Draws, split: Split, far: dict[str, Tensor]) -> dict[str, float]:
    here = draws.predict(split.test_inputs)
    found = here.metrics(split.test_targets)["ensemble"]
    auroc = {
        f"auroc {name}": float(ood_auroc(here.entropy, draws.predict(x).entropy))
        for name, x in far.items()
        if len(x)
    }
    return {"nll": found["nll"], "accuracy": found["accuracy"], "ece": found["ece"], **auroc}
