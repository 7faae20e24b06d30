"""What a solver is: `Solver`, its per-row state `RowState`, and the bookkeeping all solvers share.

A solver evaluates all rows together, and each row has a time, a step and a status of its own. The
batch runner calls `start` once and `advance` again and again; it saves rows that have landed on a
time, drops rows that are over and applies budgets and stop conditions. A solver therefore only
says how one step is made and whether it is good enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.ledger import Ledger, Moment
from dims.mechanics.metric.frame import Frame
from dims.mechanics.rows import next_step, too_short
from dims.mechanics.status import Status
from dims.model.shapes import RowFlags, RowIntegers, RowScalars, RowVectors, Times
from dims.prediction.showing import ShownChanges
from dims.surface.base import BaseSurface

__all__ = ["FINEST", "RowState", "Solver", "check_settings"]

FINEST = 1e-14  # the smallest tolerance: errors below it are rounding

State = TypeVar("State", bound="RowState")


@dataclass(frozen=True, kw_only=True)
class RowState:
    """Where each of S rows is. A solver derives from it and adds what its steps carry along.

    Every field, also of a subclass, is a tensor whose first dimension is the row or a dataclass of
    such tensors: rows are selected, merged and written to checkpoints field by field. A subclass
    also has `gradient`, ∇L at `position` (S, K) or Fᵀ∇L in a frame F, as a field or as a property;
    stop conditions read the norm of ∇L.

    Attributes:
        position: θ (S, K); a solver may carry it in float64 whatever the surface's precision.
        velocity: v (S, K) in the surface's precision: dθ/dt, or F⁻¹·dθ/dt in a frame F.
        moment: The energies T, L and w = gᵀv at (θ, v).
        time: The time reached.
        proposed_step: The step that the solver wants next; landing on a time may cut it short.
        failures: Rejected steps in a row.
        refreshing: Rows that ask for `Solver.refresh` before they go on.
        goal: The index of the next time to land on.
        landed: Rows that have just reached a time and wait for their state to be saved.
        status: A `Status` code; rows whose status is not RUNNING are over.
        ledger: Energies, arc length and counts since the start.
        frame: The coordinates of `velocity` and of gradients; the identity in the euclidean metric.
    """

    position: RowVectors
    velocity: RowVectors
    moment: Moment
    time: RowScalars
    proposed_step: RowScalars
    failures: RowIntegers
    refreshing: RowFlags
    goal: RowIntegers
    landed: RowFlags
    status: RowIntegers
    ledger: Ledger
    frame: Frame

    if TYPE_CHECKING:  # at run time a property here could not become a field of a subclass

        @property
        def gradient(self) -> RowVectors:
            """∇L at the position."""
            raise NotImplementedError

    @property
    def running(self) -> RowFlags:
        """Rows that are not over."""
        return self.status == Status.RUNNING.code

    @property
    def active(self) -> RowFlags:
        """Rows that `advance` may move: running, and waiting for nothing."""
        return self.running & ~self.refreshing & ~self.landed

    @classmethod
    def begin(
        cls: type[State],
        position: RowVectors,
        velocity: RowVectors,
        moment: Moment,
        dynamics: Dynamics,
        *,
        proposed_step: RowScalars,
        finite: RowFlags,
        **own: Any,
    ) -> State:
        """The state at time 0, after one evaluation.

        Args:
            position: θ (S, K).
            velocity: v (S, K).
            moment: The energies there, see `tangent_moment`.
            dynamics: The forces, for the start energy.
            proposed_step: The first step.
            finite: Rows that can start; the others end at once as NOT_FINITE.
            own: The fields that the subclass adds, by name.
        """
        zero = torch.zeros_like(moment.loss)
        count = torch.zeros_like(moment.loss, dtype=torch.int64)
        flag = torch.zeros_like(moment.loss, dtype=torch.bool)
        return cls(
            position=position,
            velocity=velocity,
            moment=moment,
            time=zero,
            proposed_step=proposed_step,
            failures=count,
            refreshing=flag,
            goal=count,
            landed=flag,
            status=torch.where(finite, Status.RUNNING.code, Status.NOT_FINITE.code),
            ledger=replace(Ledger.open(moment, dynamics), evaluations=count + 1),
            frame=Frame.euclidean(velocity),
            **own,
        )

    def next_step(self, times: Times) -> RowScalars:
        """The proposed step, or the shorter one that lands on the next of `times`."""
        return next_step(self.proposed_step, times[self.goal] - self.time)

    def spend(self: State, evaluations: int) -> State:
        """Count evaluations of the active rows; call it once for each `advance`."""
        spent = self.ledger.evaluations + evaluations * self.active.long()
        return replace(self, ledger=replace(self.ledger, evaluations=spent))

    def accept(
        self: State,
        accepted: RowFlags,
        step: RowScalars,
        moment: Moment,
        dynamics: Dynamics,
        times: Times,
        error: RowScalars | None = None,
    ) -> State:
        """The bookkeeping of an accepted step: time, landing, status and ledger.

        It is computed for all rows; the caller adds position, velocity, the proposed step and its
        own fields with `replace`, and takes the rows it accepts with `merge`.

        Args:
            accepted: Rows whose step is taken; the others never land.
            step: The step h.
            moment: The energies at its end.
            dynamics: The forces.
            times: The times to land on.
            error: The energy change of the step's conservative part, if the solver knows it.
        """
        goal_time = times[self.goal]
        landed = accepted & (self.time + step >= goal_time * (1 - 1e-14))
        goal = self.goal + landed.long()
        finished = goal == len(times)
        return replace(
            self,
            moment=moment,
            time=torch.where(landed, goal_time, self.time + step),
            failures=torch.zeros_like(self.failures),
            goal=torch.where(finished, self.goal, goal),
            landed=landed,
            status=torch.where(finished, Status.FINISHED.code, self.status),
            ledger=self.ledger.record(step, self.moment, moment, error, dynamics),
        )

    def reject(
        self: State,
        step: RowScalars,
        proposed_step: RowScalars,
        finite: RowFlags,
        end_time: Tensor,
        give_up_after: int,
    ) -> State:
        """The bookkeeping of a rejected step; the row stays where it is.

        Args:
            step: The step h that failed.
            proposed_step: The shorter step to try next.
            finite: Rows whose trial was finite: they give up as STALLED, others as NOT_FINITE.
            end_time: The last of the times to land on.
            give_up_after: Rejections in a row after which a row is over.
        """
        failures = self.failures + 1
        hopeless = (failures >= give_up_after) | too_short(step, self.time, end_time)
        end = torch.where(finite, Status.STALLED.code, Status.NOT_FINITE.code)
        return replace(
            self,
            proposed_step=proposed_step,
            failures=failures,
            status=torch.where(hopeless, end, self.status),
            ledger=replace(self.ledger, rejections=self.ledger.rejections + 1),
        )


class Solver(ShownChanges, ABC, Generic[State]):
    """How rows are stepped through time; derive from it to write a solver of your own.

    A solver is an immutable object of settings (a frozen dataclass); all that changes is in the
    state it returns. `check_solver` in tests/conformance checks a new one, and
    docs/extending/solvers.md walks through an example.

    Attributes:
        tolerance: The accuracy asked for, between 0 and 1. Sampling may repeat rows that failed
            with a smaller one. A solver with a fixed step may leave it at its default.
        any_metric: Whether the solver works in the frame of its state: it moves positions by
            `frame.lift`, takes gradients by `frame.pull`, and has a `restart`.
    """

    tolerance: float = 1e-2
    any_metric: ClassVar[bool] = False

    @abstractmethod
    def start(
        self,
        surface: BaseSurface,
        dynamics: Dynamics,
        position: RowVectors,
        velocity: RowVectors,
        max_time: float,
    ) -> State:
        """Evaluate the rows where they stand and propose a first step; see `RowState.begin`.

        Args:
            surface: The loss.
            dynamics: The forces.
            position: θ (S, K).
            velocity: v (S, K), of the same dtype and device.
            max_time: The end of the trajectories.
        """

    @abstractmethod
    def advance(
        self, state: State, surface: BaseSurface, dynamics: Dynamics, times: Times
    ) -> State:
        """Try one step of every active row: accept it, or reject it and propose a shorter one.

        Rows that are not active stay as they are. A row must never depend on another, and a NaN in
        one must not spread: select with `merge`, do not multiply by flags.

        Args:
            state: What `start` or the last `advance` returned.
            surface: The loss.
            dynamics: The forces.
            times: The times to land on, increasing (T,); the last one is the end.
        """

    def refresh(self, state: State, surface: BaseSurface, dynamics: Dynamics) -> State:
        """Evaluate afresh the rows that set `refreshing`; by default none ever does."""
        return state

    def restart(
        self, state: State, gradient: RowVectors, surface: BaseSurface, dynamics: Dynamics
    ) -> State:
        """Go on in a new frame: renew what the solver derived from earlier gradients.

        Args:
            state: The rows with their new frame, and velocity and moment in it.
            gradient: The gradient in that frame (S, K).
            surface: The loss.
            dynamics: The forces.
        """
        raise NotImplementedError(f"{type(self).__name__} has no restart; see dims.Solver")


def check_settings(tolerance: float, step: float | None) -> None:
    """A tolerance lies between 0 and 1; a fixed step, if given, is positive."""
    if not isinstance(tolerance, Real) or not isinstance(step, Real | None):
        raise TypeError(f"tolerance, step: expected numbers, got {tolerance!r} and {step!r}")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance: must lie between 0 and 1, got {tolerance}")
    if tolerance < FINEST:
        raise ValueError(
            f"tolerance: {tolerance} is finer than float64 resolves; give at least {FINEST}"
        )
    if step is not None and not step > 0:
        raise ValueError(f"step: must be positive, got {step}")
