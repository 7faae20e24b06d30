"""SWAG: a Gaussian through the iterates of SGD with a constant learning rate.

    θ = θ̄ + √(½·diag)·z₁ + D·z₂ / √(2(R − 1)),   z₁ ~ N(0, I_K),  z₂ ~ N(0, I_R)

θ̄ and diag are mean and variance of the iterates (one an epoch, and the start), the R columns of
D the last iterates less the running mean at their time.

Reference: W. Maddox, T. Garipov, P. Izmailov, D. Vetrov and A. G. Wilson, "A simple baseline for
Bayesian uncertainty in deep learning", NeurIPS 2019.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dims.baselines.common import check_integer, check_positive
from dims.model.likelihoods import Likelihood, with_noise
from dims.model.parameters import Selection
from dims.model.shapes import RowVectors, Vector
from dims.model.training_data import slice_inputs
from dims.sampling.draws import Draws
from dims.sampling.draws.measure import measure
from dims.sampling.perturbations import standard_noise
from dims.surface.loss import LossSurface

__all__ = ["Moments", "collect_moments", "swag"]


class Moments(NamedTuple):
    """What SWAG keeps of the iterates, in float64."""

    mean: Vector
    variance: Vector
    deviations: RowVectors  # (R, K), Dᵀ


def swag(
    model: nn.Module,
    train_data: Any,
    likelihood: str | Likelihood,
    count: int,
    *,
    epochs: int = 40,
    lr: float = 0.01,
    momentum: float = 0.0,
    batch_size: int = 128,
    rank: int = 20,
    prior_precision: float | Tensor = 1.0,
    noise_std: float | None = None,
    effective_points: float | None = None,
    loss_scale: float = 1.0,
    parameters: Selection = None,
    seed: int = 0,
) -> Draws:
    """Run SGD from the trained weights and draw from the Gaussian of its iterates.

    `lr` is the step on L/N, the loss per point. Buffers such as the running statistics of
    BatchNorm stay those of the model. The seed fixes the batches and the draws.
    """
    check_integer("count", count)
    surface = LossSurface(
        model,
        train_data,
        with_noise(likelihood, noise_std),
        prior_precision,
        effective_points=effective_points,
        loss_scale=loss_scale,
        parameters=parameters,
    )
    settings: dict[str, Any] = {
        "epochs": epochs,
        "lr": lr,
        "momentum": momentum,
        "batch_size": batch_size,
        "rank": rank,
    }
    moments = collect_moments(surface, **settings, seed=seed)
    thetas = _draw(moments, count, seed).to(surface.vector.dtype)
    return Draws(
        parameters=thetas,
        method="swag",
        surface=surface,
        map_parameters=surface.initial,
        seed=seed,
        settings=settings,
        **measure(surface, thetas),
    )


def collect_moments(
    surface: LossSurface,
    *,
    epochs: int,
    lr: float,
    momentum: float,
    batch_size: int,
    rank: int,
    seed: int,
) -> Moments:
    """Mean, variance and last deviations of the iterates, the start being the first of them."""
    check_positive("lr", lr)
    check_integer("epochs", epochs)
    check_integer("batch_size", batch_size)
    check_integer("rank", rank, lowest=2)
    check_integer("seed", seed, lowest=0)
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum: must lie in [0, 1), got {momentum}")
    if rank > epochs:
        raise ValueError(
            f"rank: {rank} deviations, but {epochs} epochs give {epochs}; lower rank or raise "
            "epochs"
        )
    generator = torch.Generator().manual_seed(seed)
    theta = surface.initial.requires_grad_()
    optimiser = torch.optim.SGD([theta], lr=lr, momentum=momentum)
    mean = surface.initial.double()
    squares = torch.zeros_like(mean)
    deviations: deque[Tensor] = deque(maxlen=rank)
    for epoch in range(1, epochs + 1):
        order = torch.randperm(surface.points, generator=generator).to(theta.device)
        for batch in order.split(batch_size):
            loss = _loss_per_point(surface, theta, batch)
            (theta.grad,) = torch.autograd.grad(loss, theta)
            optimiser.step()
        iterate = theta.detach().double()
        if not torch.isfinite(iterate).all():
            raise ValueError(f"lr: with {lr} SGD diverged in epoch {epoch}; lower it")
        before = iterate - mean
        mean = mean + before / (epoch + 1)
        deviations.append(iterate - mean)
        squares += before * deviations[-1]  # Welford's sum: no cancellation, never negative
    return Moments(mean, squares / (epochs + 1), torch.stack([*deviations]))


@torch.enable_grad()
def _loss_per_point(surface: LossSurface, theta: Tensor, batch: Tensor) -> Tensor:
    """An unbiased estimate of L/N: the terms of the batch count N/|B| times, the prior once."""
    outputs = surface.forward(theta.unsqueeze(0), slice_inputs(surface.data.inputs, batch))
    terms = surface.likelihood.negative_log(outputs, surface.data.targets[batch])
    prior = 0.5 * surface.loss_scale * (surface.prior_precision * theta.square()).sum()
    return surface.likelihood_scale * terms.mean() + prior / surface.points


def _draw(moments: Moments, count: int, seed: int) -> RowVectors:
    rank, size = moments.deviations.shape
    noise = standard_noise(count, size + rank, seed, device=moments.mean.device)
    diagonal = noise[:, :size] * (0.5 * moments.variance).sqrt()
    low_rank = noise[:, size:] @ moments.deviations / (2 * (rank - 1)) ** 0.5
    return moments.mean + diagonal + low_rank
