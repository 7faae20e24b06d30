"""The usual opponents, from the same trained members and on the same clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import dims
from dims.baselines.swag import Moments, _draw
from dims.model.torch_support.tf32 import float32_products
from real_networks.budget import alone, stopwatch
from real_networks.experiment import Experiment
from real_networks.motion import Motion, Start
from real_networks.training import Trainer

SWAG_RATES = (0.02, 0.05, 0.1)
DRAWS = 10
Made = tuple[Sequence[Tensor], dict[str, Any]]


def ensemble(experiment: Experiment, members: int) -> None:
    """Every member has a file; ensembles of 1, 2, … are made of them when scores are."""
    for seed in range(members):

        def make(seed: int = seed) -> Made:
            theta, seconds = experiment.member(seed)
            return [theta], {"seconds": seconds, "network": seed}

        experiment.predict(f"member_{seed}", make)


def swag(experiment: Experiment, seed: int) -> None:
    """SGD from member `seed` at a constant rate; two iterates an epoch, the last 20 kept.

    The rate is chosen on held-out images, and its search is on the clock. The mean of the iterates
    is a network by itself, from which draws can start.
    """

    def make() -> Made:
        theta, trained = experiment.member(seed)
        epochs = 2 if experiment.quick else 10
        marks = [(number + 1) / (2 * epochs) for number in range(2 * epochs)]
        best: tuple[float, float, Tensor, Tensor] | None = None
        with alone(experiment.device), stopwatch(experiment.device) as seconds:
            for rate in SWAG_RATES:
                try:
                    _, kept = experiment.trainer.run(
                        theta, epochs, lambda _, r=rate: r, seed + 500, keep_at=marks
                    )
                except FloatingPointError:
                    continue
                iterates = torch.stack(kept).double()
                running = iterates.cumsum(0) / torch.arange(1, len(kept) + 1).view(-1, 1).to(theta)
                mean, spread = iterates.mean(0), iterates.var(0, unbiased=False)
                moments = Moments(mean, spread, iterates - running)
                thetas = _draw(moments, DRAWS, seed).to(theta)
                nll = experiment.held_out_nll(*thetas[:5])
                if best is None or nll < best[0]:
                    best = (nll, rate, thetas, mean.to(theta))
            taken = seconds()
        if best is None:
            raise FloatingPointError("SWAG ran away at every learning rate")
        experiment.keep_averaged(seed, best[3].cpu(), trained + taken)
        record = {"seconds": taken, "training_seconds": trained, "network": seed}
        return list(best[2]), {**record, "rate": best[1], "held_out_nll": best[0]}

    def mean() -> Made:
        theta, seconds = experiment.averaged(seed)
        return [theta], {"seconds": seconds, "network": seed}

    experiment.predict(f"swag_{seed}", make)
    experiment.predict(f"averaged_{seed}", mean)


def cyclical(experiment: Experiment, seed: int, cycles: int = 3, temperature: float = 1.0) -> None:
    """Cyclical stochastic-gradient HMC (Zhang et al., 2020): from new weights, with as many epochs
    as one training; the last fifth of each cycle has noise, and four states of it are kept."""
    recipe = experiment.recipe
    epochs = 2 if experiment.quick else recipe.epochs
    points = len(experiment.images.train.labels)

    def rate_at(part: float) -> float:
        rate = 0.5 * recipe.rate * (1 + math.cos(math.pi * (part * cycles % 1)))
        return max(rate * min(1.0, part * cycles / 0.15), 1e-3 * recipe.rate)

    def noise_at(part: float) -> float:
        if part * cycles % 1 < 0.8:
            return 0.0
        return math.sqrt(2 * (1 - 0.9) * temperature / (points * rate_at(part)))

    def make() -> Made:
        marks = [(c + 0.8 + 0.05 * (k + 1)) / cycles for c in range(cycles) for k in range(4)]
        with alone(experiment.device), stopwatch(experiment.device) as seconds:
            trainer = experiment.trainer
            start = trainer.fresh(seed + 700)
            _, kept = trainer.run(
                start, epochs, rate_at, seed + 700, noise_at=noise_at, keep_at=marks
            )
            taken = seconds()
        return kept, {"seconds": taken, "temperature": temperature, "cycles": cycles}

    experiment.predict(f"cyclical_{seed}", make)


def dropout(experiment: Experiment, seed: int, rate: float = 0.2, masks: int = 20) -> None:
    """A network of its own with dropout before the last layer, and many masks."""
    trainer: Trainer | None = None

    def make() -> Made:
        nonlocal trainer
        trainer = Trainer(experiment.name, experiment.images, experiment.recipe, rate)
        trainer.prepare()
        with alone(experiment.device), stopwatch(experiment.device) as seconds:
            theta = trainer.train(seed)
            taken = seconds()
        return [theta], {"seconds": taken, "rate": rate, "masks": masks, "network": seed}

    if not (experiment.folder / "predictions" / f"dropout_{seed}.json").exists():
        made = make()
        experiment.predict(f"dropout_{seed}", lambda: made, samples=masks, trainer=trainer)


def last_layer(experiment: Experiment, seed: int, motion: Motion) -> None:
    """The Laplace approximation of the last layer, prior by the evidence."""

    def make() -> Made:
        with stopwatch(experiment.device) as seconds, float32_products():
            start = Start(experiment, seed, replace(motion, images=None, augmented=False))
            data = (start.inputs, start.labels)
            draws = dims.last_layer(start.model, data, "classification", DRAWS, seed=seed)
            whole = start.theta.repeat(DRAWS, 1)
            slices = experiment.trainer.vector.slices()
            names = draws.surface.vector.slices()
            for name, place in names.items():
                whole[:, slices[name]] = draws.parameters[:, place].to(whole)
            taken = seconds()
        record = {"seconds": taken, "training_seconds": start.trained, "network": seed}
        return list(whole), record

    kind = "averaged_" if motion.averaged else ""
    experiment.predict(f"last_layer_{kind}{seed}", make)
