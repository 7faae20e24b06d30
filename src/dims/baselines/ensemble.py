"""Deep ensembles: networks of one architecture, trained from different starts.

    p(y|x) = (1/S)·Σₛ p(y | f(x, θₛ)),   θₛ = training from start s

Reference: B. Lakshminarayanan, A. Pritzel and C. Blundell, "Simple and scalable predictive
uncertainty estimation using deep ensembles", NeurIPS 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from dims.errors import renamed_arguments
from dims.model.likelihoods import Likelihood, leaves_noise_open, with_noise
from dims.model.network import BatchedNetwork
from dims.model.shapes import RowVectors, Vector, check_integer
from dims.model.training import seeded
from dims.model.training_data import slice_inputs
from dims.sampling.draws import Draws
from dims.surface.loss import LossSurface

__all__ = ["deep_ensemble", "flatten_member", "residual_std"]

MEMBERS = 5  # of a training function, where their number is left out
PROBED_POINTS = 8
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


def flatten_member(member: nn.Module, number: int, surface: LossSurface) -> Vector:
    """θ of a member, after a proof that the network of the first member with θ is that member."""
    network = BatchedNetwork(member)
    _refuse_other_architecture(network, number, surface)
    _refuse_other_constants(network, number, surface)
    theta = network.initial
    if not torch.isfinite(theta).all():
        raise ValueError(f"models: the parameters of member {number} contain NaN or infinities")
    few = slice_inputs(surface.data.inputs, slice(0, PROBED_POINTS))
    with torch.no_grad():
        own = network.network(network.vector.unflatten(theta), few)
        shared = surface.network(surface.vector.unflatten(theta), few)
    # The same operations on the same numbers: what differs by more than rounding is another net.
    close = own.shape == shared.shape and torch.allclose(
        own, shared, rtol=1e-3, atol=1e-4 * float(shared.abs().max()), equal_nan=True
    )
    if not close:
        raise ValueError(
            f"models: member {number} has the parameters of member 0 but computes something else "
            "(another activation, another setting of a layer); give members of one architecture"
        )
    return theta


def _refuse_other_architecture(network: BatchedNetwork, number: int, surface: LossSurface) -> None:
    ours, theirs = (
        {
            **{name: (*p.shape, p.dtype, p.device) for name, p in net.module.named_parameters()},
            "the trainable parameters": net.vector.names,
        }
        for net in (surface, network)
    )
    for name in chain(ours, theirs):
        if ours.get(name) != theirs.get(name):
            raise ValueError(
                f"models: members 0 and {number} differ in {name} ({_shown(ours.get(name))} and "
                f"{_shown(theirs.get(name))}); give members of one architecture"
            )


def _shown(entry: tuple[Any, ...] | None) -> str:
    return "none" if entry is None else ", ".join(str(part) for part in entry)


def _refuse_other_constants(network: BatchedNetwork, number: int, surface: LossSurface) -> None:
    """Draws share one network, so all that is not in θ must be equal."""
    for name in sorted({*_constants(surface)} | {*_constants(network)}):
        ours, theirs = _constants(surface).get(name), _constants(network).get(name)
        if ours is None or theirs is None or not torch.equal(ours, theirs):
            raise ValueError(
                f"models: members 0 and {number} differ in {name!r}, a buffer or frozen parameter, "
                "which draws share. For BatchNorm train all members with the same frozen running "
                "statistics, or use GroupNorm or LayerNorm"
            )


def _constants(network: BatchedNetwork) -> dict[str, Tensor]:
    tensors = chain(network.module.named_parameters(), network.module.named_buffers())
    return {
        name: tensor
        for name, tensor in tensors
        # BatchNorm counts its batches, but in eval mode nothing reads the number.
        if name not in network.vector.names and not name.endswith("num_batches_tracked")
    }
