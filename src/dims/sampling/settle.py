"""`settle`: bring the ends of trajectories to rest.

Friction that grows with the speed decays like 1/t, so a trajectory still rings in the stiff
directions of the loss when its time is up. "stiff" lets gradient flow

    θ' = −∇L(θ),     a mode of curvature λ keeps e^(−λτ) of its distance to the minimum

act for just as long as the gradient needs to fall by a factor, but never so long that the flat
modes move: those that only the prior bends, λ = δ, keep nine tenths of their distance. What is left
of the gradient then lies along them, and so does the diversity of the draws. "full" walks on to the
minimum below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dims.mechanics.rows import map_tensors
from dims.mechanics.status import CodedStatus
from dims.model.network import prior_curvature
from dims.model.shapes import (
    RowFlags,
    RowIntegers,
    RowScalars,
    RowVectors,
    check_integer,
    check_rows,
)
from dims.prediction.showing import Shown, counted_names
from dims.sampling import descent
from dims.sampling.descent import Descent, Plan
from dims.surface.base import BaseSurface

__all__ = [
    "REDUCTION",
    "SettleStatus",
    "Settled",
    "plan_of",
    "report_on",
    "rows_in_memory",
    "settle",
]

TOLERANCE = 1e-6  # ‖g‖ ≤ 1e-6·(1 + |L|) is a minimum for all purposes
REDUCTION = 100.0  # of the gradient, by settling in the stiff directions
FLAT_SHARE = 0.1  # δ·τ: the share of its distance that a flat mode moves
MAX_SPACE = {"stiff": 100, "full": 300}
MAX_EVALUATIONS = {"stiff": 20_000, "full": 100_000}
MEMORY = 2**30  # bytes of Krylov vectors alive at once


class SettleStatus(CodedStatus):
    """How settling ended for a row, and what to do about it."""

    SETTLED = (descent.ARRIVED, "the gradient reached its goal")
    TIME_SPENT = (
        descent.TIME_SPENT,
        "max_time of gradient flow passed before the gradient reached its goal: what is left of it "
        "lies in the flat directions; raise max_time if they may move",
    )
    BUDGET_SPENT = (
        descent.BUDGET_SPENT,
        "used max_evaluations before the gradient reached its goal; raise it to go on",
    )
    STALLED = (
        descent.STALLED,
        "no step lowers the loss or the gradient beyond rounding; this is as far as the precision "
        "goes: use float64 for more, or a smooth activation",
    )
    NOT_FINITE = (
        descent.NOT_FINITE,
        "the loss or its gradient is NaN or infinite at the start, which is kept: look at the "
        "status of its trajectory",
    )

    @property
    def ok(self) -> bool:
        """Whether the row is at rest as asked: its gradient small, or along flat directions."""
        return self in (SettleStatus.SETTLED, SettleStatus.TIME_SPENT)


@dataclass(frozen=True, repr=False)
class Settled(Shown):
    """Where each row came to rest, and what it took."""

    positions: RowVectors
    loss: RowScalars
    start_loss: RowScalars
    gradient_norm: RowScalars
    start_gradient_norm: RowScalars
    displacement: RowScalars  # ‖θ − θ at the start‖
    time: RowScalars  # τ: a mode of curvature λ kept e^(−λτ) ("stiff"), step by step
    evaluations: RowIntegers  # gradients and Hessian-vector products
    status: list[SettleStatus]

    def _facts(self) -> dict[str, Any]:
        return {
            "rows": len(self.loss),
            "ended": counted_names(status.name for status in self.status),
            "largest_gradient_norm": float(self.gradient_norm.max()),
            "largest_displacement": float(self.displacement.max()),
        }

    @property
    def converged(self) -> RowFlags:
        """Which rows reached the goal of their gradient."""
        flags = [status is SettleStatus.SETTLED for status in self.status]
        return torch.tensor(flags, dtype=torch.bool, device=self.loss.device)


def settle(
    surface: BaseSurface,
    thetas: Tensor,
    method: str = "stiff",
    *,
    reduction: float = REDUCTION,
    max_time: float | None = None,
    max_evaluations: int | None = None,
) -> Settled:
    """Bring every row to rest: in the stiff directions ("stiff") or at the minimum below ("full").

    "stiff" stops at ‖g‖ ≤ max(‖g₀‖/reduction, 1e-6·(1 + |L|)) or after `max_time`; "full" stops at
    ‖g‖ ≤ 1e-6·(1 + |L|). No row ends above its start (but for rounding).

    Args:
        surface: A `Surface` or `LossSurface`.
        thetas: Where the rows start, (S, K).
        method: "stiff" or "full".
        reduction: "stiff" only: the factor by which the gradient is to fall.
        max_time: "stiff" only: the longest time of gradient flow; a mode of curvature λ keeps at
            least e^(−λ·max_time) of its distance. None: 0.1/δ on a network with prior precision δ
            (times `loss_scale`), no limit on other surfaces.
        max_evaluations: Most gradients and Hessian-vector products of a row; None: 20 000 for
            "stiff", 100 000 for "full".

    Returns:
        Where each row came to rest and what it took. A row that cannot go on keeps the last place
        it reached, and its status says why.

    Raises:
        TypeError: `surface` is not a surface.
        ValueError: The method is unknown, or a number is out of its range.

    Example:
        >>> settled = dims.settle(posterior.surface, draws.parameters, "full")
        >>> settled.positions, settled.gradient_norm
    """
    plan = plan_of(surface, method, reduction, max_time, max_evaluations)
    parts = rows_in_memory(surface, thetas, plan.max_space)
    return report_on(thetas.detach(), [descent.descend(surface, rows, plan) for rows in parts])


def rows_in_memory(surface: BaseSurface, thetas: Tensor, space: int) -> tuple[Tensor, ...]:
    """Checked rows, in parts whose Krylov vectors fit in memory: at most `space` for each row."""
    if not isinstance(surface, BaseSurface):
        raise TypeError(f"surface: expected a Surface or LossSurface, got {type(surface).__name__}")
    check_rows("thetas", thetas)
    size = thetas.shape[1]
    row_bytes = (min(space, size) + 1) * size * thetas.element_size()
    return thetas.detach().split(max(1, MEMORY // row_bytes))


def plan_of(
    surface: BaseSurface,
    method: str,
    reduction: float = REDUCTION,
    max_time: float | None = None,
    max_evaluations: int | None = None,
) -> Plan:
    """Where the descent of `settle` with these arguments stops."""
    if method not in MAX_SPACE:
        raise ValueError(f"method: {method!r} is unknown; there are 'stiff' and 'full'")
    if not reduction > 1:
        raise ValueError(f"reduction: must be above 1, got {reduction}")
    if max_time is not None and not max_time > 0:
        raise ValueError(f"max_time: must be positive, got {max_time}")
    if method == "full" and (max_time is not None or reduction != REDUCTION):
        raise ValueError("max_time, reduction: for method 'stiff' only; 'full' has a fixed goal")
    if max_evaluations is None:
        max_evaluations = MAX_EVALUATIONS[method]
    if max_time is None:
        max_time = _flat_time(surface) if method == "stiff" else math.inf
    return Plan(
        reach=descent.flow if method == "stiff" else descent.newton,
        reduction=reduction if method == "stiff" else math.inf,
        tolerance=TOLERANCE,
        max_time=max_time,
        max_evaluations=check_integer("max_evaluations", max_evaluations),
        max_space=MAX_SPACE[method],
    )


def _flat_time(surface: BaseSurface) -> float:
    """τ = 0.1/(c·δ): the time in which a mode that only the prior bends moves by a tenth."""
    flat = prior_curvature(surface)
    return FLAT_SHARE / flat if flat > 0 else math.inf


def report_on(thetas: RowVectors, ends: list[Descent]) -> Settled:
    """The ends of descents that started at θ (S, K), in parts."""
    end = map_tensors(lambda *parts: torch.cat(parts), *ends)
    return Settled(
        positions=end.position,
        loss=end.loss,
        start_loss=end.start_loss,
        gradient_norm=end.gradient_norm,
        start_gradient_norm=end.start_norm,
        displacement=torch.linalg.vector_norm((end.position - thetas).double(), dim=-1),
        time=end.time,
        evaluations=end.evaluations,
        status=[SettleStatus.from_code(int(code)) for code in end.status],
    )
