"""Walk to a minimum by damped Gauss–Newton steps with a fitted curvature.

    θ ← θ − (H + c·(δ + μ))⁻¹·∇L,     stop at ½·∇Lᵀ·P⁻¹·∇L ≤ tolerance,  P = H + c·δ

The damping μ follows the share of the promised loss that a step keeps (Levenberg–Marquardt with
Nielsen's rule; Madsen, Nielsen and Tingleff, Methods for Non-Linear Least Squares Problems, 2004).
The stop is what a whole step would gain in nats, the unit in which candidates of the evidence are
compared.

A curvature costs as much as a hundred gradients, so `quasi_newton` goes as far as each one leads.
Steps need no exact curvature: where there are many points for each parameter, some of the points
give it (R. H. Byrd and others, "On the use of stochastic Hessian information in optimization
methods for machine learning", 2011), and that of all points judges the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor

from dims.curvature import Curvature, Precision
from dims.model.shapes import Vector
from dims.sampling.quasi_newton import Place, follow
from dims.surface.loss import LossSurface
from dims.surface.part import every

__all__ = ["FitAt", "Walk", "walk_down"]

FitAt = Callable[[LossSurface, Vector], Curvature]

TOLERANCE = 0.05  # nats
TOLERANCE_PER_POINT = 2e-4  # nats: differences that matter grow with the data, and so do walks
MOST_STEPS = 60
TRIES = 12  # dampings of one step
NEGLIGIBLE = 0.01  # of the tolerance: such a promise is not worth another curvature
NO_DAMPING = 0.01  # prior precisions: less than this is none
STALLED = 4  # steps that gain less than half the tolerance together; four more would gain no more
OUTPUTS_PER_PARAMETER = 4  # of the points that give a curvature to step by
FEWEST_POINTS = 1000  # of them


class Walk(NamedTuple):
    """Where a walk ended, the curvature there, and what it took."""

    theta: Vector
    loss: float
    curvature: Curvature
    arrived: bool
    evaluations: int
    curvatures: int


def walk_down(
    surface: LossSurface,
    theta: Vector,
    fit_at: FitAt,
    tolerance: float | None = None,
    most_steps: int = MOST_STEPS,
) -> Walk:
    """Walk from θ to the minimum below it.

    Args:
        surface: The loss surface.
        theta: Where to start, (K,).
        fit_at: The curvature of the likelihood part at a point, H ⪰ 0.
        tolerance: Stop where a Gauss–Newton step promises less, in nats; None: by the data.
        most_steps: Stop after so many steps.

    Returns:
        The end of the walk; no step goes uphill.
    """
    scale, damping = surface.loss_scale, _Damping(surface)
    tolerance = _usual_tolerance(surface) if tolerance is None else tolerance
    goal = 0.5 * tolerance * scale
    here, some = Place.at(surface, theta), _some_points(surface)
    losses, last_step, steps, curvatures, evaluations = [here.loss], False, 0, 0, 1
    while True:
        curvature, curvatures = fit_at(some, here.theta), curvatures + 1
        precision_under = partial(curvature.precision, scale=surface.points / some.points)
        whole = precision_under(surface.prior_precision)
        promised = 0.5 * here.slope(whole.solve(here.gradient)) / (tolerance * scale)
        arrived = promised <= 1
        stalled = len(losses) > STALLED and losses[-1 - STALLED] - here.loss < goal
        done = arrived and (last_step or promised <= NEGLIGIBLE)
        found = None
        if not (steps == most_steps or done or stalled):
            found = damping.step(here, whole, precision_under)
            steps += 1
        if found is None:  # arrived, or only rounding is left
            if some is surface:
                break
            some, losses, last_step = surface, [here.loss], False
            continue
        last_step = arrived  # one more: on a quadratic loss it ends at the minimum
        here, used = follow(surface, [here, found.place], found.precision.solve, goal)
        evaluations += used
        losses.append(here.loss)
    evaluations += damping.tries
    return Walk(here.theta, here.loss, curvature, arrived, evaluations, curvatures)


class _Step(NamedTuple):
    """Where a step led, and the precision that it used."""

    place: Place
    precision: Precision


class _Damping:
    """μ, which follows the share of the promised loss that a step keeps."""

    def __init__(self, surface: LossSurface) -> None:
        self.surface, self.prior = surface, surface.prior_precision
        self.smallest = float(self.prior.double().mean())  # what a first damping is worth
        self.size, self.harder, self.tries = 0.0, 2.0, 0

    def step(
        self, here: Place, whole: Precision, precision_under: Callable[[Tensor], Precision]
    ) -> _Step | None:
        """The first step that goes downhill; None where none does."""
        for _ in range(TRIES):
            precision = precision_under(self.prior + self.size) if self.size else whole
            step = precision.solve(here.gradient)
            trial = Place.at(self.surface, here.theta - step)
            self.tries += 1
            damped = self.surface.loss_scale * self.size * float(step.double() @ step.double())
            kept = (here.loss - trial.loss) / (0.5 * (here.slope(step) + damped))
            if kept > 0 and trial.finite:
                size = self.size * max(1 / 3, 1 - (2 * kept - 1) ** 3)
                self.size, self.harder = size if size > NO_DAMPING * self.smallest else 0.0, 2.0
                return _Step(trial, precision)
            self.size = max(self.harder * self.size, self.smallest)
            self.harder *= 2
        return None


def _some_points(surface: LossSurface) -> LossSurface:
    """The loss on as many of the points as give a curvature to step by."""
    stride = surface.points * surface.outputs // (OUTPUTS_PER_PARAMETER * surface.size)
    return every(surface, max(1, min(stride, surface.points // FEWEST_POINTS)))


def _usual_tolerance(surface: LossSurface) -> float:
    return max(TOLERANCE, TOLERANCE_PER_POINT * surface.effective_points)
