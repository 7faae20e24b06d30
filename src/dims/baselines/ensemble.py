"""Deep ensembles: networks of one architecture, trained from different starts.

    p(y|x) = (1/S)·Σₛ p(y | f(x, θₛ)),   θₛ = training from start s

Reference: B. Lakshminarayanan, A. Pritzel and C. Blundell, "Simple and scalable predictive
uncertainty estimation using deep ensembles", NeurIPS 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dims.errors import renamed_arguments
from dims.model.likelihoods import Likelihood, leaves_noise_open, with_noise
from dims.model.shapes import RowVectors, check_integer
from dims.model.training import seeded
from dims.sampling.draws import Draws
from dims.surface.loss import LossSurface
from dims.surface.members import flatten_member

__all__ = ["deep_ensemble", "residual_std"]

MEMBERS = 5  # of a training function, where their number is left out
SMALLEST_NOISE = 1e-4


@renamed_arguments(train_data="data")
def deep_ensemble(
    models: Sequence[nn.Module] | Callable[[int], nn.Module],
    data: Any,
    likelihood: str | Likelihood,
    members: int | None = None,
    *,
    prior_precision: float | Tensor = 1.0,
    noise_std: float | None = None,
    effective_points: float | None = None,
    loss_scale: float = 1.0,
    seed: int = 0,
) -> Draws:
    """Networks trained from different starts, as draws θ₁, …, θ_S; the first stands for θ*.

    Prior and noise define the loss that is reported and the noise of predictions. For a fair
    comparison give those of the posterior. `train_ensemble` trains members for you.

    Args:
        models: Trained networks, or a function that trains member i when called with seed + i. It
            finds torch's global generators seeded with that number; they are restored after it.
        data: The training data.
        likelihood: "regression", "classification" or a likelihood object.
        members: Number of members of a training function, 5 by default.
        prior_precision: Precision of the Gaussian prior, a number or (K,).
        noise_std: σ of a Gaussian likelihood; None takes the members' residuals.
        effective_points: How many points the likelihood counts as; None counts each once.
        loss_scale: A factor on likelihood and prior.
        seed: Of the first member.

    Returns:
        One draw for each member.

    Raises:
        TypeError: `models` is neither a list of networks nor a function that returns them.
        ValueError: Members differ in more than their weights.

    Example:
        >>> draws = dims.deep_ensemble(train, (x, y), "regression", members=10)
    """
    trained = _members(models, members, seed)
    first = next(trained)
    surface = LossSurface(
        first,
        data,
        with_noise(likelihood, noise_std),
        prior_precision,
        effective_points=effective_points,
        loss_scale=loss_scale,
    )
    rows = [surface.initial]
    rows += [flatten_member(member, i, surface) for i, member in enumerate(trained, start=1)]
    thetas = torch.stack(rows)
    if leaves_noise_open(likelihood, noise_std):
        noisy = surface.likelihood.with_noise(residual_std(surface, thetas))
        surface = surface.with_settings(likelihood=noisy)
    made = Draws.from_parameters(surface, thetas, "deep_ensemble")
    used = seed if _is_training(models) else None
    return replace(made, seed=used, settings={"members": len(thetas)})


def residual_std(surface: LossSurface, thetas: RowVectors) -> float:
    """σ of most likelihood, over all members; not zero where they fit perfectly."""
    residuals = surface.predict(thetas, surface.data.inputs) - surface.data.targets
    return max(float(residuals.double().square().mean().sqrt()), SMALLEST_NOISE)


def _is_training(models: Any) -> bool:
    return callable(models) and not isinstance(models, nn.Module)


def _members(models: Any, count: int | None, seed: int) -> Iterator[nn.Module]:
    """One member after the other; trained when it is asked for, so that few are alive at once."""
    if _is_training(models):
        count = MEMBERS if count is None else count
        check_integer("members", count)
        check_integer("seed", seed, lowest=0)
        return (_train(models, seed + number) for number in range(count))
    if not isinstance(models, Iterable):
        raise TypeError(
            f"models: expected a list of modules or a function train(seed), got "
            f"{type(models).__name__}"
        )
    given = list(models)
    if isinstance(models, nn.Sequential) or not all(isinstance(m, nn.Module) for m in given):
        raise TypeError("models: expected a list of whole networks; wrap a single one as [model]")
    if not given:
        raise ValueError("models: there are none; give at least one trained network")
    if count is not None and count != len(given):
        raise ValueError(f"members: {count} asked for, but {len(given)} models given; leave it out")
    return iter(given)


def _train(train: Callable[[int], nn.Module], seed: int) -> nn.Module:
    with seeded(seed):
        model = train(seed)
    if not isinstance(model, nn.Module):
        raise TypeError(f"models: train({seed}) returned a {type(model).__name__}, not a module")
    return model
