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

from dims.curvature import Curvature
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
    prior, scale = surface.prior_precision, surface.loss_scale
    tolerance = _usual_tolerance(surface) if tolerance is None else tolerance
    smallest = float(prior.double().mean())  # what a first damping is worth
    damping, harder = 0.0, 2.0
    here = Place.at(surface, theta)
    evaluations, steps, last_step = 1, 0, False
    losses = [here.loss]
    stride = surface.points * surface.outputs // (OUTPUTS_PER_PARAMETER * surface.size)
    some = every(surface, max(1, min(stride, surface.points // FEWEST_POINTS)))
    while True:
        curvature = fit_at(some, here.theta)
        precision_under = partial(curvature.precision, scale=surface.points / some.points)
        precision = precision_under(prior)
        whole = precision.solve(here.gradient)
        promised = 0.5 * here.slope(whole) / (tolerance * scale)
        arrived = promised <= 1
        goal = 0.5 * tolerance * scale
        stalled = len(losses) > STALLED and losses[-1 - STALLED] - here.loss < goal
        done = arrived and (last_step or promised <= NEGLIGIBLE)
        if steps == most_steps or done or stalled:
            if some is surface:
                break
            some, losses, last_step = surface, [here.loss], False
            continue
        last_step = arrived  # one more: on a quadratic loss it ends at the minimum
        moved = False
        for _ in range(TRIES):
            if damping:
                precision = precision_under(prior + damping)
            step = precision.solve(here.gradient) if damping else whole
            trial = Place.at(surface, here.theta - step)
            evaluations += 1
            damped = scale * damping * float(step.double() @ step.double())
            kept = (here.loss - trial.loss) / (0.5 * (here.slope(step) + damped))
            if kept > 0 and trial.finite:
                moved = True
                damping *= max(1 / 3, 1 - (2 * kept - 1) ** 3)
                damping, harder = damping if damping > NO_DAMPING * smallest else 0.0, 2.0
                break
            damping, harder = max(harder * damping, smallest), 2 * harder
        steps += 1
        if not moved:  # rounding
            break
        here, used = follow(surface, [here, trial], precision.solve, goal)
        evaluations += used
        losses.append(here.loss)
    return Walk(here.theta, here.loss, curvature, arrived, evaluations, steps + 1)


def _usual_tolerance(surface: LossSurface) -> float:
    return max(TOLERANCE, TOLERANCE_PER_POINT * surface.effective_points)
