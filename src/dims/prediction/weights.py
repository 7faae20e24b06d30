"""Weights of draws: averages over S draws that count differently; None counts all alike."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

__all__ = ["average", "check_weights", "effective_draws", "log_average", "same_weights", "spread"]

# Room for weights that were normalised in float32.
SUM_SLACK = 1e-5


def check_weights(weights: Any, draws: int) -> Tensor:
    """Weights of draws in float64, (S,), or an error that says what is wrong with them.

    Args:
        weights: One number for each draw, not negative, with the sum 1.
        draws: S.

    Returns:
        The weights, (S,).

    Raises:
        ValueError: There is another number of them, or they are negative, NaN, or do not sum to 1.
    """
    given = torch.as_tensor(weights).detach().double()
    if given.shape != (draws,):
        raise ValueError(
            f"weights: expected one for each of {draws} draws, shape ({draws},), got "
            f"{tuple(given.shape)}"
        )
    if not (given.isfinite() & (given >= 0)).all():
        raise ValueError("weights: they must be finite and not negative")
    total = float(given.sum())
    if draws and abs(total - 1) > SUM_SLACK:
        raise ValueError(f"weights: they sum to {total:.6g}, not 1; divide them by their sum")
    return given


def same_weights(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two sets of weights are equal."""
    if one is None or other is None:
        return one is other
    return torch.equal(one, other.to(one.device))


def effective_draws(weights: Tensor) -> float:
    """How many draws of equal weight average as well: 1/Σ wₛ²."""
    return float(1 / weights.square().sum())


def average(values: Tensor, weights: Tensor | None) -> Tensor:
    """Σₛ wₛ·valuesₛ over the first axis, in the precision of the values."""
    if weights is None:
        return values.mean(dim=0)
    return torch.tensordot(weights.to(values), values, dims=1)


def spread(values: Tensor, weights: Tensor | None) -> Tensor:
    """Σₛ wₛ·(valuesₛ − average)² over the first axis."""
    if weights is None:
        return values.var(dim=0, correction=0)
    return average((values - average(values, weights)).square(), weights)


def log_average(log_values: Tensor, weights: Tensor | None) -> Tensor:
    """log Σₛ wₛ·exp(log_valuesₛ) over the first axis."""
    if weights is None:
        return log_values.logsumexp(dim=0) - math.log(log_values.shape[0])
    shape = (-1, *[1] * (log_values.ndim - 1))
    return (log_values + weights.to(log_values).log().view(shape)).logsumexp(dim=0)
