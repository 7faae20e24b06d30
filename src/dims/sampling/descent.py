"""Batched descent with curvature: every row with its own model, step and end.

    p = −f(H, t)·g,     f(H, t)·g ≈ ‖g‖·V·f(T, t)·e₁

V and T are the Krylov space of (H, g) (see `lanczos`): one space serves every t, so a refused step
costs one gradient and no new products. The reach f(λ, t) says how far a mode of curvature λ goes
in the time t. Both reaches take |λ| for λ, so that negative curvature is left downhill.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dims.curvature.krylov import Krylov, QuadraticModel, Reach, lanczos
from dims.mechanics.rows import map_tensors, select_rows
from dims.model.shapes import RowFlags, RowIntegers, RowScalars, RowVectors
from dims.surface.base import BaseSurface

__all__ = ["ARRIVED", "BUDGET_SPENT", "NOT_FINITE", "STALLED", "TIME_SPENT"]
__all__ += ["Descent", "Plan", "descend", "flow", "newton"]

RUNNING, ARRIVED, TIME_SPENT, BUDGET_SPENT, STALLED, NOT_FINITE = range(6)

FIRST_STEP = 1.0  # in units of 1/λ_max; ten would leave the curve that gradient flow follows
GROW, SHRINK = 2.5, 0.3
TRIES = 30  # refusals of one model: 0.3³⁰ = 2e-16 of the first, a shorter step is no step
ENOUGH, GOOD = 0.25, 0.5  # gained over promised loss: to accept, and to try a longer step next
QUIETER = 0.9  # where the loss drowns in rounding, a step must bring the gradient down to this
AIM = 0.7  # a step aims below the goal by this factor, as the model is not exact
LEAK = 0.05  # the share of ‖g‖ that the Krylov space may miss
LAST = 1e-3  # the share of max_time that is left when it counts as spent
ROUNDING = 10.0  # the loss is known to so many units of rounding


def flow(curvature: Tensor, time: Tensor) -> Tensor:
    """Gradient flow for the time t, f = (1 − e^(−|λ|t))/|λ|: a mode shrinks by e^(−λt)."""
    product = curvature.abs() * time
    small = product < 1e-8
    return time * torch.where(small, 1.0, -torch.expm1(-product) / product.where(~small, 1.0))


def newton(curvature: Tensor, time: Tensor) -> Tensor:
    """A damped Newton step, f = 1/(|λ| + 1/t): a mode shrinks by 1/(1 + λt)."""
    return time / (1 + curvature.abs() * time)


@dataclass(frozen=True)
class Plan:
    """Where to stop: ‖g‖ ≤ max(‖g at the start‖/reduction, tolerance·(1 + |L|)), or a limit."""

    reach: Reach
    reduction: float
    tolerance: float
    max_time: float
    max_evaluations: int
    max_space: int

    def goal(self, state: Descent) -> RowScalars:
        floor = self.tolerance * (1 + state.loss.abs())
        return torch.maximum(state.start_norm / self.reduction, floor)


@dataclass(frozen=True)
class Descent:
    """The state of each row."""

    position: RowVectors
    gradient: RowVectors
    loss: RowScalars
    start_loss: RowScalars
    start_norm: RowScalars  # ‖g‖ at the start
    time: RowScalars  # Σ of the accepted t
    step: RowScalars  # the longest t to try next; infinite before the first model
    evaluations: RowIntegers
    status: RowIntegers

    @property
    def gradient_norm(self) -> RowScalars:
        return torch.linalg.vector_norm(self.gradient.double(), dim=-1)

    @property
    def noise(self) -> RowScalars:
        """What rounding does to the loss."""
        return ROUNDING * torch.finfo(self.position.dtype).eps * (1 + self.loss.abs())


def descend(
    surface: BaseSurface,
    positions: RowVectors,
    plan: Plan,
    watch: Callable[[Descent], None] | None = None,
) -> Descent:
    """Walk every row down to its goal, as gently as that can be done.

    A step takes the shortest time that reaches the goal by the model, if one does; else the longest
    that keeps a part of the promised loss. Gradients and products both count as evaluations.
    `watch` is called with the state of all rows before each step and at the end.
    """
    loss, gradient = surface.value_and_grad(positions)
    norm = torch.linalg.vector_norm(gradient.double(), dim=-1)
    finite = loss.isfinite() & norm.isfinite()
    state = Descent(
        position=positions,
        gradient=gradient,
        loss=loss,
        start_loss=loss,
        start_norm=norm,
        time=torch.zeros_like(loss),
        step=torch.full_like(loss, torch.inf),
        evaluations=torch.ones(len(loss), dtype=torch.int64, device=loss.device),
        status=torch.where(finite, RUNNING, NOT_FINITE),
    )
    state = _judge(state, plan)
    while True:
        if watch is not None:
            watch(state)
        rows = (state.status == RUNNING).nonzero().squeeze(-1)
        if len(rows) == 0:
            return state
        part = _judge(_advance(select_rows(state, rows), surface, plan), plan)
        state = _put(state, rows, part)


def _judge(state: Descent, plan: Plan) -> Descent:
    """Who has arrived, and who has used up its time or evaluations."""
    status = state.status
    running = status == RUNNING
    over = running & (state.evaluations >= plan.max_evaluations)
    status = torch.where(over, BUDGET_SPENT, status)
    over = running & (state.time >= (1 - LAST) * plan.max_time)
    status = torch.where(over, TIME_SPENT, status)
    arrived = (status != NOT_FINITE) & (state.gradient_norm <= plan.goal(state))
    return replace(state, status=torch.where(arrived, ARRIVED, status))


def _advance(state: Descent, surface: BaseSurface, plan: Plan) -> Descent:
    """One model of each row, and the longest step of it that keeps what it promises."""
    model = _model(state, surface, plan)
    limit = _longest(model, state, plan)
    time, aimed = model.first_time(
        lambda t: model.gradient_norm(t) <= AIM * plan.goal(state), limit
    )
    state = replace(state, evaluations=state.evaluations + model.krylov.size)
    pending = torch.arange(len(limit), device=limit.device)
    for attempt in range(TRIES):
        part, t = select_rows(state, pending), time[pending]
        trial, kept = _try(part, model.select(pending), surface, t)
        moved = kept >= ENOUGH
        if attempt == 0:
            after = torch.where(aimed, limit, t * torch.where(kept >= GOOD, GROW, 1.0))
        else:
            after = t
        trial = replace(trial, step=after)
        stayed = replace(part, evaluations=trial.evaluations)
        state = _put(state, pending[moved], select_rows(trial, moved))
        state = _put(state, pending[~moved], select_rows(stayed, ~moved))
        time = time.index_copy(0, pending, SHRINK * t)
        pending = pending[~moved]
        if len(pending) == 0:
            return state
    # The last steps before max_time are short by design: drowning in rounding is not a failure.
    cramped = (limit >= _left(state, plan))[pending] & (state.time[pending] > 0)
    stalled = torch.where(cramped, TIME_SPENT, STALLED)
    return replace(state, status=state.status.index_copy(0, pending, stalled))


def _try(
    state: Descent, model: QuadraticModel, surface: BaseSurface, time: RowScalars
) -> tuple[Descent, RowScalars]:
    """The state after the step, and the part of its promise that it keeps; −1 if unusable."""
    position = state.position - model.krylov.lift(model.move(time))
    loss, gradient = surface.value_and_grad(position)
    trial = replace(
        state,
        position=position,
        gradient=gradient,
        loss=loss,
        time=state.time + time,
        evaluations=state.evaluations + 1,
    )
    promise, noise = model.promise(time), state.noise
    quieter = trial.gradient_norm <= QUIETER * state.gradient_norm
    kept = torch.where(
        promise > noise, (state.loss - loss) / promise, torch.where(quieter, 1.0, -1.0)
    )
    sound = loss.isfinite() & trial.gradient_norm.isfinite() & (loss <= state.start_loss + noise)
    return trial, kept.where(sound & kept.isfinite(), -1.0)


def _longest(model: QuadraticModel, state: Descent, plan: Plan) -> RowScalars:
    """The longest time to try: what the last step taught, but not so short that rounding rules."""
    left = _left(state, plan)
    # Without curvature a step of the size 1 + ‖θ‖ is as good a guess as any.
    slope = state.gradient_norm / (1 + torch.linalg.vector_norm(state.position.double(), dim=-1))
    steepest = torch.maximum(model.krylov.eigen[0].abs().amax(-1), slope)
    learnt = torch.where(state.step.isinf(), FIRST_STEP / steepest, state.step)
    audible, found = model.first_time(
        lambda t: model.promise(t) > 2 * state.noise, torch.minimum(left, 1e6 * learnt)
    )
    return torch.minimum(torch.maximum(learnt, torch.where(found, audible, 0.0)), left)


def _left(state: Descent, plan: Plan) -> RowScalars:
    """The time a step may take: half of what is left.

    A long step along a curved valley leaves a gradient across it; halving ends in steps so short
    that they take it away and leave none.
    """
    return 0.5 * (plan.max_time - state.time)


def _model(state: Descent, surface: BaseSurface, plan: Plan) -> QuadraticModel:
    def product(rows: Tensor, vectors: RowVectors) -> RowVectors:
        return surface.grad_and_hvp(state.position[rows], vectors)[1]

    def resolved(krylov: Krylov) -> RowFlags:
        model = QuadraticModel(krylov, plan.reach)
        leak = krylov.leak(model.move(_longest(model, state, plan)))
        return leak <= torch.maximum(LEAK * krylov.start_norm, 0.5 * AIM * plan.goal(state))

    return QuadraticModel(
        lanczos(product, state.gradient, plan.max_space, done=resolved), plan.reach
    )


def _put(whole: Descent, rows: Tensor, part: Descent) -> Descent:
    """The rows of a part, back in their places."""
    return map_tensors(lambda old, new: old.index_copy(0, rows, new), whole, part)
