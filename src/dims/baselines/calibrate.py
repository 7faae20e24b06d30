"""The temperature or noise under which a mixture of networks explains given rows best."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from dims.baselines.ensemble import SMALLEST_NOISE
from dims.baselines.held_out import mixture_nll
from dims.model.likelihoods import Likelihood

__all__ = ["HIGHEST", "LOWEST", "best_noise_factor", "best_temperature"]

LOWEST, HIGHEST = 1e-2, 1e2
SCANNED = 41  # temperatures before the bisection
BISECTIONS = 45


def best_noise_factor(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> float:
    """T of the noise, by the contract of `Likelihood.noise_std`: −log p = r/σ² + C·log σ."""
    assert likelihood.noise_std is not None
    terms, width = likelihood.negative_log(outputs, targets.double()), outputs.shape[-1]
    # For one draw this is the answer, and for several the best T is not larger.
    alone = math.sqrt(2 * float(terms.mean()) / width)
    if alone * likelihood.noise_std < SMALLEST_NOISE:
        raise ValueError(
            "validation: the held-out rows are predicted without any error, so they set no noise; "
            "give rows that the network was not trained on"
        )

    def loss(factor: Tensor) -> Tensor:
        scaled = terms / (alone * factor).square() + width * factor.log()
        return mixture_nll(scaled).mean()

    return alone * best_temperature(loss, outputs.device)


def best_temperature(loss: Callable[[Tensor], Tensor], device: torch.device) -> float:
    """The temperature of least loss: a scan, then bisection of the slope in log T."""

    def slope(log_temperature: float) -> float:
        leaf = torch.tensor(log_temperature, dtype=torch.float64, device=device, requires_grad=True)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(leaf.exp()), leaf)
        return float(gradient)

    ends = math.log(LOWEST), math.log(HIGHEST)
    grid = torch.linspace(*ends, SCANNED, dtype=torch.float64, device=device)
    with torch.no_grad():
        values = torch.stack([loss(entry.exp()) for entry in grid])
    best = int(values.argmin())
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, SCANNED - 1)])
    if best == 0 and slope(low) >= 0:
        return LOWEST
    if best == SCANNED - 1 and slope(high) <= 0:
        return HIGHEST
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return math.exp(0.5 * (low + high))
