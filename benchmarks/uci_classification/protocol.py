"""One split of one set, one way of training.

"ordinary": the network is trained without dropout; a tenth of the training rows chooses learning
rate and length, and it is trained again on all of them. "paper": dropout 0.5 and 10 000 epochs.
`dims.fit` and `posterior.sample` then give the default answer. The validation part of the split
(15 % of the rows, which the network has not seen) weighs network and draws in a second answer, and
chooses learning rate and length of the opponent, an ensemble of five.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dims
from dims.model.training import perceptron
from dims.prediction.metrics.detection import ood_auroc
from dims_paper.datasets.splits import Split
from dims_paper.datasets.uci import load_uci
from far_inputs import far_inputs
from uci_classification.networks import HIDDEN, paper_network

PROTOCOLS = ("ordinary", "paper")
MEMBERS = 5


def run_one(name: str, protocol: str, seed: int, draws: int, networks: Path) -> dict[str, Any]:
    """Scores of one split, and what was chosen."""
    split = load_uci(name, seed)
    train = (split.train_inputs, split.train_targets)
    held_out = (split.validation_inputs, split.validation_targets)

    def make() -> nn.Module:
        return perceptron((train[0].shape[1], *HIDDEN, split.classes), nn.SiLU)

    began = time.perf_counter()
    if protocol == "paper":
        network = paper_network(name, seed, networks)
    else:
        options: dict[str, Any] = {"members": 1, "seed": seed, "progress": False}
        alone = dims.train_ensemble(make, train, "classification", **options)
        network = make()
        nn.utils.vector_to_parameters(alone.parameters[0], network.parameters())
    posterior = dims.fit(network, train, "classification", progress=False)
    made = posterior.sample(draws, save_at=(1.0,), seed=seed, progress=False, certify=False)
    seconds = {"default": time.perf_counter() - began}
    began = time.perf_counter()
    ensemble = dims.train_ensemble(
        make, train, "classification", MEMBERS, validation=held_out, seed=seed, progress=False
    )
    seconds["ensemble"] = time.perf_counter() - began
    weighed = made.stacked(held_out)
    assert weighed.mixture is not None
    answers = {
        "network": dims.Draws.from_parameters(posterior.surface, _row(posterior.surface.initial)),
        "minimum": dims.Draws.from_parameters(posterior.surface, _row(posterior.map_parameters)),
        "linla": posterior.sample(100, "linla", seed=seed, progress=False),
        "draws alone": replace(made, mixture=None),
        "default": made,
        "held out": weighed,
        "ensemble": ensemble,
    }
    return {
        "seconds": seconds,
        "prior_precision": float(posterior.prior_precision),
        "gradients": float(made.evaluations.double().mean()),
        "weights": weighed.mixture.named_weights(made.times.tolist()),
        "scores": {key: _scores(each, split, seed) for key, each in answers.items()},
    }


def _row(theta: torch.Tensor) -> torch.Tensor:
    return theta.unsqueeze(0)


def _scores(draws: dims.Draws, split: Split, seed: int) -> dict[str, float]:
    here = draws.predict(split.test_inputs)
    found = here.metrics(split.test_targets)["ensemble"]
    auroc = {
        f"auroc {name}": float(ood_auroc(here.entropy, draws.predict(x).entropy))
        for name, x in far_inputs(split.test_inputs, seed).items()
    }
    return {"nll": found["nll"], "accuracy": found["accuracy"], "ece": found["ece"], **auroc}
