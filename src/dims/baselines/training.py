"""Deep ensembles from scratch: members and settings side by side, chosen on held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dims.baselines.ensemble import MEMBERS, deep_ensemble
from dims.baselines.fresh import fresh_network
from dims.baselines.search import Chosen, Problem, Setting
from dims.baselines.side_by_side import Schedule
from dims.model.likelihoods import Likelihood
from dims.model.shapes import check_integer, check_positive
from dims.sampling.draws import Draws
from dims.sampling.progress import part_reporter

__all__ = ["train_ensemble"]

RATES = (1e-3, 3e-3, 1e-2, 3e-2)
STEPS = 20  # of an epoch, where the size of a batch is left out
SMALLEST_BATCH, LARGEST_BATCH = 16, 256


def train_ensemble(
    network: nn.Module | Callable[[], nn.Module],
    data: Any,
    likelihood: str | Likelihood,
    members: int = MEMBERS,
    *,
    learning_rate: float | Sequence[float] = RATES,
    weight_decay: float | Sequence[float] = 1e-4,
    epochs: int = 200,
    batch_size: int | None = None,
    patience: int = 50,
    validation: Any = 0.1,
    noise_std: float | None = None,
    seed: int = 0,
    progress: bool | Callable[[float], None] = True,
) -> Draws:
    """Train a deep ensemble from scratch, with all members in one batched program.

    Members minimise the mean of −log p(y|f) + ½λ‖θ‖² by Adam, whose rate falls to 0 along a cosine.
    First weights and order of the data depend on (seed, member) only. All learning rates and weight
    decays are tried at once; held-out rows choose one of each, and the epoch of each member.
    `deep_ensemble` takes networks that are trained already.

    Args:
        network: A function that makes an untrained network, or a module whose layers draw new
            weights by `reset_parameters`; it is not modified.
        data: The training data.
        likelihood: "regression", "classification" or a likelihood object.
        members: Number of members.
        learning_rate: First step of Adam, or several to choose from.
        weight_decay: λ, or several to choose from. It is the prior of the draws' loss, δ = λN/σ².
        epochs: Most passes through the data.
        batch_size: Points in a batch; None takes a twentieth of the data, from 16 to 256.
        patience: A member stops after so many epochs without a better held-out score.
        validation: Rows (x, y) that are held out; or a fraction of the data, and then members are
            trained again on all of it with what was chosen; or "none".
        noise_std: σ of a Gaussian likelihood; None takes the residuals on held-out rows.
        seed: Of first weights, orders and the held-out fraction.
        progress: Show a bar in a terminal, or a function to call with the part that is done.

    Returns:
        A draw for each member; `settings` has the choice, all scores, epochs and seconds.

    Raises:
        ValueError: A number is out of range, or the network has layers such as BatchNorm.
        DivergedError: Training diverged at all learning rates.

    Example:
        >>> make = lambda: nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Linear(50, 1))
        >>> draws = dims.train_ensemble(make, (x, y), "regression", members=5)
    """
    began, settings = time.perf_counter(), _check_settings(learning_rate, weight_decay)
    seeds = _own_seeds(check_integer("seed", seed, lowest=0), check_integer("members", members))
    fresh = [fresh_network(network, first) for first, _ in seeds]
    problem = Problem(fresh, data, likelihood, noise_std, [order for _, order in seeds])
    schedule = _schedule(epochs, batch_size, patience, problem.surface.points)
    with part_reporter(progress, "training") as report:
        chosen = problem.train(validation, settings, schedule, seed, report)
    more = {"batch_size": schedule.batch_size, "seconds": time.perf_counter() - began}
    return _assemble(problem, chosen, seed, more)


def _assemble(problem: Problem, chosen: Chosen, seed: int, more: dict[str, Any]) -> Draws:
    """Draws of the trained members, on the surface whose minima training looked for."""
    vector, (rate, decay) = problem.surface.vector, chosen.setting
    with torch.no_grad():
        for member, theta in zip(problem.fresh, chosen.thetas, strict=True):
            for name, tensor in vector.unflatten(theta).items():
                member.get_parameter(name).copy_(tensor)
    likelihood = problem.surface.likelihood
    prior = decay * problem.surface.points
    if chosen.noise_std is not None:  # it was 1 in training
        likelihood = likelihood.with_noise(chosen.noise_std)
        prior /= chosen.noise_std**2
    made = deep_ensemble(problem.fresh, problem.data, likelihood, prior_precision=prior)
    record = {
        **made.settings,
        "learning_rate": rate,
        "weight_decay": decay,
        "epochs": chosen.epochs,
        "tried": chosen.tried,
        "held_out": chosen.held_out,
        "batched": problem.batched,
        **more,
    }
    return replace(made, seed=seed, settings=record)


def _schedule(epochs: int, batch_size: int | None, patience: int, points: int) -> Schedule:
    if batch_size is None:
        batch_size = min(max(points // STEPS, SMALLEST_BATCH), LARGEST_BATCH)
    return Schedule(
        check_integer("epochs", epochs),
        check_integer("batch_size", batch_size),
        check_integer("patience", patience),
    )


def _check_settings(rates: Any, decays: Any) -> list[Setting]:
    """All pairs of a learning rate and a weight decay."""

    def listed(name: str, given: Any, or_zero: bool) -> list[float]:
        values = list(given) if isinstance(given, (Sequence, Tensor, np.ndarray)) else [given]
        if not values:
            raise ValueError(f"{name}: there are none; give a number or several")
        return [check_positive(name, value, or_zero=or_zero) for value in values]

    return [*product(listed("learning_rate", rates, False), listed("weight_decay", decays, True))]


def _own_seeds(seed: int, members: int) -> list[tuple[int, int]]:
    """Of the first weights and of the orders of each member.

    Sums such as seed + member would give member 1 of seed 0 the weights of member 0 of seed 1.
    """
    sequences = (np.random.SeedSequence((seed, member)) for member in range(members))
    return [tuple(sequence.generate_state(2).tolist()) for sequence in sequences]
