"""`refine`: walk θ* to a minimum of the sampled surface, in a budget, never to a steeper place.

Training stops early, or minimises another loss, so θ* often lies on a slope of the surface that is
sampled. The way down may be long: along a curved valley the loss falls for tens of thousands of
gradients, while the slope across the valley goes up and down. A walk that is stopped there may be
steeper than its start. So the stiff directions are brought to rest after it, and if that is not
enough the flattest place of the way is taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from dims.errors import NotAMinimumWarning
from dims.model.shapes import RowVectors, Vector, check_integer
from dims.sampling.descent import Descent, descend
from dims.sampling.progress import part_reporter
from dims.sampling.settle import Settled, SettleStatus, plan_of, report_on, settle
from dims.surface.base import BaseSurface

__all__ = ["STEEP", "budget_of", "refine", "warn_of_slope"]

BUDGET = 10_000  # gradients and Hessian-vector products
LAST_PART = 10  # one part in so many of the budget, again, for the stiff directions
STEEP = 1.0  # ‖g‖: a slope of 45° on the graph of the loss, the scale of the metric I + ggᵀ


def budget_of(wanted: Any) -> int:
    """Gradients that `fit(refine=wanted)` may use: 0 for False, the usual number for True."""
    if isinstance(wanted, bool):
        return BUDGET if wanted else 0
    return check_integer("refine", wanted)


def refine(
    surface: BaseSurface,
    theta: Vector,
    budget: int = BUDGET,
    progress: bool | Callable[[float], None] = True,
) -> Settled:
    """Walk down to a minimum, or as near as the budget allows.

    Args:
        surface: The surface.
        theta: Where to start, (K,).
        budget: Most gradients and Hessian-vector products (a tenth more for the last part).
        progress: Show a bar in a terminal, or a function to call with the part that is spent.

    Returns:
        One row: where it came to rest and how. Its gradient norm is not above that of the start.

    Example:
        >>> refine(posterior.surface, posterior.map_parameters).gradient_norm
    """
    start = theta.detach().unsqueeze(0)
    flattest: list[RowVectors] = []
    lowest = torch.inf
    with part_reporter(progress, "walking to a minimum") as tell:

        def watch(state: Descent) -> None:
            nonlocal lowest
            norm = float(state.gradient_norm)
            if norm < lowest:
                lowest, flattest[:] = norm, [state.position]
            tell(min(1.0, int(state.evaluations) / budget))

        plan = plan_of(surface, "full", max_evaluations=budget)
        end = report_on(start, [descend(surface, start, plan, watch)])
    steeper = bool(end.gradient_norm > end.start_gradient_norm)
    if end.status[0] is not SettleStatus.BUDGET_SPENT and not steeper:
        return end
    rest = settle(surface, end.positions, max_evaluations=max(1, budget // LAST_PART))
    place = rest.positions
    if not rest.gradient_norm <= min(end.start_gradient_norm, end.gradient_norm):
        place = flattest[0]
    return _moved(surface, end, place, start, int(rest.evaluations))


def _moved(
    surface: BaseSurface, end: Settled, place: RowVectors, start: RowVectors, more: int
) -> Settled:
    """The same walk, but for the place that is taken of it."""
    loss, gradient = surface.value_and_grad(place)
    return replace(
        end,
        positions=place,
        loss=loss,
        gradient_norm=torch.linalg.vector_norm(gradient.double(), dim=-1),
        displacement=torch.linalg.vector_norm((place - start).double(), dim=-1),
        evaluations=end.evaluations + more,
    )


def warn_of_slope(
    gradient_norm: float, refinement: Settled | None, tuned_there: bool, stacklevel: int
) -> None:
    """Say that θ* is on a slope, or that refining did not end at a minimum, and what to do.

    Args:
        gradient_norm: ‖g(θ*)‖.
        refinement: How refining ended; None where it was not asked for.
        tuned_there: Whether prior and noise were tuned at θ*, and not at a minimum.
        stacklevel: That of the caller's caller, as in `warnings.warn`.
    """
    if refinement is None:
        if gradient_norm <= STEEP:
            return
        cure = "refine=True walks to a minimum first"
        if tuned_there:
            cure = (
                'tune="cautious" chooses prior and noise at a minimum and starts there; '
                "refine=True alone keeps those of this θ*, which are often wrong below"
            )
        message = (
            f"θ* is not a minimum of the sampled surface: its gradient norm is {gradient_norm:.3g} "
            f"(training minimised another loss, or stopped early). Draws start on a slope; {cure}"
        )
    else:
        (status,) = refinement.status
        spent = status is SettleStatus.BUDGET_SPENT
        if not spent and gradient_norm <= STEEP:
            return
        used = int(refinement.evaluations)
        advice = f"refine={10 * used} goes on for longer" if spent else status.advice
        message = (
            f"refine did not reach a minimum: after {used} gradients and Hessian-vector products "
            f"the gradient norm is {gradient_norm:.3g}, from "
            f"{float(refinement.start_gradient_norm):.3g}, and the loss "
            f"{float(refinement.loss):.6g}, from {float(refinement.start_loss):.6g}; {advice}"
        )
    warnings.warn(message, NotAMinimumWarning, stacklevel=stacklevel + 1)
