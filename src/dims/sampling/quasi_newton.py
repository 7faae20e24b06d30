"""Steps downhill by gradients alone, from a curvature that was right a few steps before.

L-BFGS with the inverse of a fitted precision as its first inverse Hessian: the pairs of steps and
changes of the gradient mend what the precision has wrong. J. Nocedal, "Updating quasi-Newton
matrices with limited storage", Mathematics of Computation, 1980.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from dims.model.shapes import Vector
from dims.surface.loss import LossSurface

__all__ = ["Place", "follow"]

MOST_STEPS = 50
PAIRS = 20  # that are remembered
ENOUGH = 1e-4  # share of the promised loss that a step must keep
SHORTEST = 1 / 16  # of a step; then another curvature is due
CURVED = 1e-8  # cosine between a step and the change of the gradient, below which it says nothing


class Place(NamedTuple):
    """A point with its loss and gradient."""

    theta: Vector
    loss: float
    gradient: Vector

    @staticmethod
    def at(surface: LossSurface, theta: Vector) -> Place:
        losses, gradients = surface.value_and_grad(theta.unsqueeze(0))
        return Place(theta, float(losses[0]), gradients[0])

    def slope(self, step: Vector) -> float:
        """How much a step of −`step` promises to first order."""
        return float(self.gradient.double() @ step.double())

    @property
    def finite(self) -> bool:
        """Whether one can go on from here."""
        return bool(self.gradient.isfinite().all())


def follow(
    surface: LossSurface, places: list[Place], solve: Callable[[Tensor], Tensor], goal: float
) -> tuple[Place, int]:
    """Go on from the last of some places, until a step promises less than `goal`.

    Args:
        surface: The loss surface.
        places: Where the walk has been with this precision.
        solve: Multiplies by the inverse of the precision.
        goal: Of the loss.

    Returns:
        The last place, which is not above the others, and the number of gradients.
    """
    pairs = [pair for pair in map(_pair, places, places[1:]) if pair is not None]
    here, gradients = places[-1], 0
    while gradients < MOST_STEPS:
        step = _quasi_newton_step(here.gradient, pairs[-PAIRS:], solve)
        promised = here.slope(step)
        if not promised > 2 * goal:
            break
        share = 1.0
        trial = Place.at(surface, here.theta - step)
        gradients += 1
        while not (trial.finite and here.loss - trial.loss >= ENOUGH * share * promised):
            share /= 2
            if share < SHORTEST:
                return here, gradients
            trial = Place.at(surface, here.theta - share * step)
            gradients += 1
        pair = _pair(here, trial)
        if pair is not None:
            pairs.append(pair)
        here = trial
    return here, gradients


def _pair(before: Place, after: Place) -> tuple[Tensor, Tensor] | None:
    """A step and the change of the gradient; None where the loss does not curve upwards."""
    step = (after.theta - before.theta).double()
    change = (after.gradient - before.gradient).double()
    curved = float(step @ change) > CURVED * float(step.norm() * change.norm())
    return (step, change) if curved else None


def _quasi_newton_step(
    gradient: Vector, pairs: list[tuple[Tensor, Tensor]], solve: Callable[[Tensor], Tensor]
) -> Vector:
    """The two-loop recursion."""
    direction, shares = gradient.double(), []
    for step, change in reversed(pairs):
        share = (step @ direction) / (step @ change)
        direction = direction - share * change
        shares.append(share)
    direction = solve(direction.to(gradient.dtype)).double()
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - (change @ direction) / (step @ change)) * step
    return direction.to(gradient.dtype)
