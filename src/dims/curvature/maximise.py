"""Maximise a smooth function of a few variables within a box: a grid, then projected BFGS.

    maximise f(x)  subject to  lower ≤ x ≤ upper;     box: (variables, 2)

Reference: Nocedal & Wright, Numerical Optimization, ch. 6 and 16.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Search", "best_of_grid", "climb"]

GRID_STEP = 1.0
LONGEST_STEP = 2.0
GRADIENT_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Search:
    """Where a search ended, whether at a maximum, and after how many iterations."""

    point: Tensor
    converged: bool
    iterations: int


def best_of_grid(objective: Callable[[Tensor], Tensor], box: Tensor) -> Tensor:
    """The best point of a coarse grid, so that a local maximum far away does not catch us."""
    axes = [
        torch.linspace(low, high, max(2, math.ceil((high - low) / GRID_STEP) + 1)).double()
        for low, high in box.tolist()
    ]
    with torch.no_grad():
        points = torch.cartesian_prod(*axes).reshape(-1, len(axes))
        values = torch.stack([objective(point).cpu() for point in points])
    return points[values.nan_to_num(nan=-torch.inf).argmax()]


def climb(
    objective: Callable[[Tensor], Tensor], point: Tensor, box: Tensor, max_iterations: int
) -> Search:
    """Projected BFGS: coordinates held at a bound by the gradient rest, the others go uphill."""
    lower, upper = box.unbind(1)
    point = point.clamp(lower, upper)
    value, gradient = _value_and_gradient(objective, point)
    identity = torch.eye(len(point), dtype=point.dtype)
    inverse, fresh = identity / gradient.norm().clamp(min=1.0), True
    for iteration in range(max_iterations):
        held = ((point <= lower) & (gradient < 0)) | ((point >= upper) & (gradient > 0))
        free = (~held).double()
        direction = free * (inverse @ (free * gradient))
        rounding = 1e-14 * (1 + abs(value))
        if (free * gradient).abs().max() <= GRADIENT_TOLERANCE:
            return Search(point, True, iteration)
        # The quadratic model is not to be trusted further than that.
        direction = direction * (LONGEST_STEP / direction.abs().max()).clamp(max=1.0)
        for halving in range(40):
            trial = (point + direction * 0.5**halving).clamp(lower, upper)
            new_value, new_gradient = _value_and_gradient(objective, trial)
            step = trial - point
            if new_value >= value + 1e-4 * float(step @ gradient) - rounding:
                break
        else:
            if fresh:  # nowhere to go but by rounding
                return Search(point, float(direction @ gradient) <= 1e2 * rounding, iteration)
            inverse, fresh = identity / gradient.norm().clamp(min=1.0), True
            continue
        change = free * (gradient - new_gradient)
        if float(step @ change) > 1e-12 * float(step.norm() * change.norm()):
            inverse, fresh = _bfgs(inverse, step, change, identity, fresh), False
        point, value, gradient = trial, new_value, new_gradient
    return Search(point, False, max_iterations)


def _bfgs(inverse: Tensor, step: Tensor, change: Tensor, identity: Tensor, fresh: bool) -> Tensor:
    """The BFGS update of the inverse Hessian (Nocedal & Wright, eq. 6.17; 6.20 at first)."""
    product = step @ change
    if fresh:
        inverse = identity * product / change.square().sum()
    left = identity - torch.outer(step, change) / product
    return left @ inverse @ left.T + torch.outer(step, step) / product


def _value_and_gradient(
    objective: Callable[[Tensor], Tensor], point: Tensor
) -> tuple[float, Tensor]:
    leaf = point.detach().clone().requires_grad_()
    with torch.enable_grad():
        value = objective(leaf)
        if not torch.isfinite(value):  # outside the domain: no place to go
            return -math.inf, torch.zeros_like(point)
        (gradient,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), gradient
