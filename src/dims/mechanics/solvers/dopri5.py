"""Dormand–Prince 5(4) with a step of its own for every row: the published recipe, batched.

It integrates y = (θ, v), y' = (v, a) with one Hessian-vector product a stage and controls the local
error of y, not the energy; it is here as the reference that the recipe deserves.

Reference: J. R. Dormand and P. J. Prince, J. Comput. Appl. Math. 6 (1980).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.ledger import Ledger, Moment, tangent_moment
from dims.mechanics.rows import columns, merge, next_step, too_short
from dims.mechanics.status import Status
from dims.model.shapes import RowFlags, RowIntegers, RowScalars, RowVectors, Times
from dims.surface.base import BaseSurface

__all__ = ["Dopri5", "Dopri5State"]

STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


@dataclass(frozen=True)
class Dopri5:
    """Settings. `tolerance` is the relative one; the absolute one is `absolute_factor` times it,
    as in the published runs (1e-7 and 1e-6). `step` fixes the step, for tests of order."""

    tolerance: float = 1e-7
    absolute_factor: float = 10.0
    step: float | None = None
    give_up_after: int = 60

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance: must lie between 0 and 1, got {self.tolerance}")
        if self.step is not None and not self.step > 0:
            raise ValueError(f"step: must be positive, got {self.step}")

    def start(
        self,
        surface: BaseSurface,
        dynamics: Dynamics,
        position: RowVectors,
        velocity: RowVectors,
        max_time: float,
    ) -> Dopri5State:
        """Evaluate the rows where they stand and choose a first step from v and a."""
        loss = surface.value(position)
        gradient, product = surface.grad_and_hvp(position, velocity)
        force = dynamics.acceleration(velocity, gradient, product)
        moment = tangent_moment(loss, gradient, velocity)
        zero = torch.zeros_like(loss)
        count = torch.zeros_like(loss, dtype=torch.int64)
        flag = torch.zeros_like(loss, dtype=torch.bool)
        pace = torch.maximum(_norm(velocity), _norm(force)) + 1e-10
        first = (1e-3 * (1 + _norm(position)) / pace).clamp(max=1e-2 * max_time)
        finite = moment.kinetic.isfinite() & loss.isfinite() & force.isfinite().all(-1)
        return Dopri5State(
            position=position,
            velocity=velocity,
            acceleration=force,
            gradient=gradient,
            moment=moment,
            time=zero,
            wish=first if self.step is None else torch.full_like(zero, self.step),
            failures=count,
            refreshing=flag,
            goal=count,
            landed=flag,
            status=torch.where(finite, Status.RUNNING.code, Status.NOT_FINITE.code),
            ledger=replace(Ledger.open(moment, dynamics), evaluations=count + 1),
        )

    def refresh(self, state: Dopri5State, surface: BaseSurface, dynamics: Dynamics) -> Dopri5State:
        """Nothing is carried between steps that could need it."""
        return state

    def advance(
        self, state: Dopri5State, surface: BaseSurface, dynamics: Dynamics, times: Times
    ) -> Dopri5State:
        """One step attempt of every row: six new stages, the last is the next step's first."""
        h = next_step(state.wish, times[state.goal] - state.time)
        speeds, forces = [state.velocity], [state.acceleration]
        gradient = state.gradient
        for weights in STAGES:
            position = state.position + _combine(h, weights, speeds)
            velocity = state.velocity + _combine(h, weights, forces)
            gradient, product = surface.grad_and_hvp(position, velocity)
            speeds.append(velocity)
            forces.append(dynamics.acceleration(velocity, gradient, product))
        loss = surface.value(position)
        ratio = self._error_ratio(state, position, velocity, h, speeds, forces)
        moment = tangent_moment(loss, gradient, velocity)
        finite = ratio.isfinite() & loss.isfinite() & moment.kinetic.isfinite()
        precise = ratio <= (torch.inf if self.step is not None else 1.0)
        active = state.running & ~state.landed
        accepted = active & finite & precise
        evaluations = state.ledger.evaluations + 6 * active.long()
        ledger = replace(state.ledger, evaluations=evaluations)
        state = replace(state, ledger=ledger)

        goal_time = times[state.goal]
        landed = accepted & (state.time + h >= goal_time * (1 - 1e-14))
        goal = state.goal + landed.long()
        finished = goal == len(times)
        factor = (0.9 * ratio.clamp(min=1e-10) ** -0.2).clamp(0.2, 10.0)
        # A step cut short by a landing says nothing against the longer wish before it.
        grown = torch.maximum(h * factor, torch.where(factor >= 1, state.wish, h * factor))
        arrived = replace(
            state,
            position=position,
            velocity=velocity,
            acceleration=forces[-1],
            gradient=gradient,
            moment=moment,
            time=torch.where(landed, goal_time, state.time + h),
            wish=state.wish if self.step is not None else grown,
            failures=torch.zeros_like(state.failures),
            goal=torch.where(finished, state.goal, goal),
            landed=landed,
            status=torch.where(finished, Status.FINISHED.code, state.status),
            ledger=ledger.record(h, state.moment, moment, None, dynamics),
        )
        failures = state.failures + 1
        hopeless = failures >= (1 if self.step is not None else self.give_up_after)
        hopeless = hopeless | too_short(h, state.time, times[-1])
        end = torch.where(finite, Status.STALLED.code, Status.NOT_FINITE.code)
        retreated = replace(
            state,
            wish=h * torch.where(finite, factor.clamp(max=0.9), 0.2),
            failures=failures,
            status=torch.where(hopeless, end, state.status),
            ledger=replace(ledger, rejections=ledger.rejections + 1),
        )
        return merge(accepted, arrived, merge(active, retreated, state))

    def _error_ratio(
        self,
        state: Dopri5State,
        position: RowVectors,
        velocity: RowVectors,
        h: RowScalars,
        speeds: list[Tensor],
        forces: list[Tensor],
    ) -> RowScalars:
        """Root-mean-square of the embedded error over its tolerance, over θ and v together."""
        total = torch.zeros_like(h)
        for old, new, slopes in (
            (state.position, position, speeds),
            (state.velocity, velocity, forces),
        ):
            allowed = torch.maximum(old.abs(), new.abs()) + self.absolute_factor
            scaled = _combine(h, ERROR, slopes) / (self.tolerance * allowed)
            total = total + scaled.double().square().mean(-1)
        return (0.5 * total).sqrt()


@dataclass(frozen=True)
class Dopri5State:
    """Where each row is; its acceleration is the next step's first stage."""

    position: RowVectors
    velocity: RowVectors
    acceleration: RowVectors
    gradient: RowVectors
    moment: Moment
    time: RowScalars
    wish: RowScalars
    failures: RowIntegers
    refreshing: RowFlags
    goal: RowIntegers
    landed: RowFlags
    status: RowIntegers
    ledger: Ledger

    @property
    def running(self) -> RowFlags:
        return self.status == Status.RUNNING.code


def _combine(h: RowScalars, weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    total = sum(w * slope for w, slope in zip(weights, slopes, strict=True) if w != 0.0)
    return columns(h, slopes[0]) * total


def _norm(vectors: RowVectors) -> RowScalars:
    return torch.linalg.vector_norm(vectors, dim=-1).double()
