"""Draws that ran away: their training loss is far above what the network, or nothing, gives.

    limit = L(θ*) + n·(1 + clamp((L₀ − L(θ*))/n, 0, 10)),   L₀: the best constant prediction

n is what the likelihood counts: a nat a point. A draw may be a nat worse than a prediction that
knows nothing of the inputs, and never eleven nats worse than the network.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dims.errors import DivergedError
from dims.model.shapes import RowScalars
from dims.surface.loss import LossSurface

__all__ = ["check_loss", "constant_loss", "largest_loss"]

MARGIN, MOST = 1.0, 10.0  # nats a point
ITERATIONS = 100


def largest_loss(surface: LossSurface) -> float:
    """L above which a draw has run away."""
    start = float(surface.value(surface.initial.unsqueeze(0)))
    nat = surface.likelihood_scale * surface.points
    above = min(max((constant_loss(surface) - start) / nat, 0.0), MOST)
    return start + nat * (MARGIN + above)


def constant_loss(surface: LossSurface) -> float:
    """L of the best constant prediction, with the prior term of θ*."""
    likelihood, targets = surface.likelihood, surface.data.targets
    outputs = surface.predict(surface.initial.unsqueeze(0), surface.data.inputs)[0]
    constant = outputs.mean(dim=0).detach().double().requires_grad_()
    wide = targets.double() if targets.is_floating_point() else targets

    def loss(value: Tensor) -> Tensor:
        terms = likelihood.negative_log(value.expand(len(targets), -1), wide)
        return terms.mean()

    optimiser = torch.optim.LBFGS([constant], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        total = loss(constant)
        (constant.grad,) = torch.autograd.grad(total, constant)
        return total

    with torch.enable_grad():
        optimiser.step(closure)
    with torch.no_grad():
        best = float(loss(constant))
    prior = 0.5 * surface.loss_scale * (surface.prior_precision * surface.initial.square()).sum()
    return surface.likelihood_scale * surface.points * best + float(prior)


def check_loss(surface: LossSurface, losses: RowScalars, learning_rate: float) -> None:
    """Refuse draws whose training loss is not finite or above the limit."""
    limit = largest_loss(surface)
    far = ~(losses <= limit)
    if far.any():
        start = float(surface.value(surface.initial.unsqueeze(0))) / surface.points
        worst = float(losses[far].nan_to_num(float("inf")).max()) / surface.points
        raise DivergedError(
            f"learning_rate: with {learning_rate} {int(far.sum())} of {len(losses)} draws ran "
            f"away, to a loss of {worst:.3g} a point where the network has {start:.3g}; lower it, "
            "or give several and validation=(x, y) to choose from"
        )
