"""Points that are really left out check what approximate leave-one-out scores have chosen.

The scores take a point away by one Newton step. A network that learns by heart would go elsewhere
without the point, which the step does not see. Most harm is done where the noise is an output: a
density has no largest value, and what was learnt by heart gets next to no noise. So a fifth of the
points is left out at once, and candidates are walked to the minimum of the others, from the
strongest prior to the chosen one, until one predicts these points significantly worse.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dims.model.copies import equal_rows, parts_of
from dims.model.shapes import Vector
from dims.sampling.evidence_minimum import Minimum
from dims.sampling.gauss_newton import FitAt, walk_down
from dims.sampling.leave_one_out import unseen_scores
from dims.surface.loss import LossSurface
from dims.surface.part import on_points

__all__ = ["checked", "needs_check"]

SHARE = 0.2


def needs_check(surface: LossSurface) -> bool:
    """Whether scores have no upper bound: densities have none, probabilities of classes have."""
    return surface.data.targets.is_floating_point() and round(SHARE * surface.points) > 1


def checked(
    minima: dict[float, Minimum], place: float, theta: Vector, fit_at: FitAt, most_steps: int
) -> tuple[float, dict[float, Minimum]]:
    """The chosen place, or a stronger prior that points which are left out like better.

    From the strongest candidate on, weaker ones are tried up to the chosen one, as long as they are
    not worse than the best so far by more than a standard error of the paired difference.

    Args:
        minima: The candidates by their place; larger is stronger.
        place: The place that was chosen.
        theta: Where all walks start, as those of the candidates have.
        fit_at: The curvature of a surface at a point.
        most_steps: Of a walk.

    Returns:
        The place, and the candidates, some of them with the mean log p of the left-out points.
    """
    points = minima[place].surface.points
    order = torch.randperm(points, generator=torch.Generator().manual_seed(0))
    best: Tensor | None = None
    found, known = place, dict(minima)
    for candidate in sorted((p for p in minima if p >= place), reverse=True):
        surface = minima[candidate].surface
        scores, cost = _scores(surface, order, theta, fit_at, most_steps)
        known[candidate] = minima[candidate].checked(float(scores.mean()), cost)
        if best is not None and _is_worse(scores, best):
            break
        found = candidate
        best = scores if best is None or scores.mean() > best.mean() else best
    return found, known


def _is_worse(scores: Tensor, best: Tensor) -> bool:
    """By more than a standard error of the paired difference."""
    loss = best - scores
    return float(loss.mean()) > float(loss.std()) / math.sqrt(len(loss))


def _scores(
    surface: LossSurface, order: Tensor, theta: Vector, fit_at: FitAt, most_steps: int
) -> tuple[Tensor, int]:
    """log p of the left-out points, at the minimum of the others, and the cost of the walk."""
    held, kept = parts_of(order, [round(SHARE * len(order))], equal_rows(*surface.data))
    part = on_points(surface, kept.to(theta.device))
    walk = walk_down(part, theta, fit_at, most_steps=most_steps)
    unseen = surface.work.part(held.to(theta.device))
    return unseen_scores(part, walk.theta, walk.curvature, unseen), walk.evaluations
