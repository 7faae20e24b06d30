"""Points that are really left out check what approximate leave-one-out scores have chosen.

The scores take a point away by one Newton step. A network that learns by heart would go elsewhere
without the point, which the step does not see. Most harm is done where the noise is an output: a
density has no largest value, and what was learnt by heart gets next to no noise. So a fifth of the
points is left out at once, and candidates are walked to the minimum of the others. No prior is
chosen that predicts these points significantly worse than a stronger one, and none that is weaker.
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

__all__ = ["LeftOut", "needs_check"]

SHARE = 0.2


def needs_check(surface: LossSurface) -> bool:
    """Whether scores have no upper bound: densities have none, probabilities of classes have."""
    return surface.data.targets.is_floating_point() and round(SHARE * surface.points) > 1


class LeftOut:
    """A fifth of the points, and what candidates say of them at the minima of the others."""

    def __init__(self, surface: LossSurface, theta: Vector, fit_at: FitAt, most_steps: int) -> None:
        """
        Args:
            surface: The loss on all points.
            theta: Where all walks start, as those of the candidates have.
            fit_at: The curvature of a surface at a point.
            most_steps: Of a walk.
        """
        self.theta, self.fit_at, self.most_steps = theta, fit_at, most_steps
        order = torch.randperm(surface.points, generator=torch.Generator().manual_seed(0))
        held, kept = parts_of(order, [round(SHARE * len(order))], equal_rows(*surface.data))
        self.held, self.kept = held.to(theta.device), kept.to(theta.device)
        self._scores: dict[float, Tensor] = {}
        self._evaluations: dict[float, int] = {}

    def refutes(self, place: float, minimum: Minimum) -> bool:
        """Whether one of the stronger priors that were scored predicts the points better.

        By more than a standard error of the paired difference.
        """
        here = self._scored(place, minimum)
        stronger = [scores for other, scores in self._scores.items() if other > place]
        if not stronger:
            return False
        loss = max(stronger, key=lambda scores: float(scores.mean())) - here
        return float(loss.mean()) > float(loss.std()) / math.sqrt(len(loss))

    def weakest(self, minima: dict[float, Minimum], place: float) -> float:
        """From the strongest candidate to a place: the last one before the first refuted.

        Args:
            minima: The candidates by their place; larger is stronger.
            place: The weakest one to ask for.
        """
        found = place
        for other in sorted((p for p in minima if p >= place), reverse=True):
            if self.refutes(other, minima[other]):
                break
            found = other
        return found

    def noted(self, minima: dict[float, Minimum]) -> dict[float, Minimum]:
        """The candidates, with the mean log p of the points where it is known."""
        known = {
            place: minima[place].checked(float(scores.mean()), self._evaluations[place])
            for place, scores in self._scores.items()
        }
        return minima | known

    def _scored(self, place: float, minimum: Minimum) -> Tensor:
        """log p of each point, at the minimum of the others under this prior."""
        if place not in self._scores:
            part = on_points(minimum.surface, self.kept)
            walk = walk_down(part, self.theta, self.fit_at, most_steps=self.most_steps)
            unseen = minimum.surface.work.part(self.held)
            self._scores[place] = unseen_scores(part, walk.theta, walk.curvature, unseen)
            self._evaluations[place] = walk.evaluations
        return self._scores[place]
