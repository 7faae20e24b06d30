"""What moves the rows of a batch: a solver on a surface, forces, a metric, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dims.mechanics.clock import Clock
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.events import StopCondition
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.solvers.base import RowState, Solver
from dims.mechanics.status import Status
from dims.model.shapes import RowVectors, Times
from dims.surface.base import BaseSurface

__all__ = ["Motion"]


@dataclass(frozen=True)
class Motion:
    """How rows start, step, and choose their metric anew; None is the euclidean metric."""

    solver: Solver
    surface: BaseSurface
    dynamics: Dynamics
    times: Times
    metric: MovingMetric | None
    stop: StopCondition | None

    def begin(
        self, position: RowVectors, velocity: RowVectors, numbers: Tensor, clock: Clock
    ) -> RowState:
        """Evaluate the rows where they stand."""
        end_time = float(self.times[-1])
        state = self.solver.start(self.surface, self.dynamics, position, velocity, end_time)
        if not isinstance(state, RowState) or not hasattr(state, "gradient"):
            raise TypeError(
                f"solver: {type(self.solver).__name__}.start must return a RowState with a "
                f"gradient, got {type(state).__name__}; derive its state from dims.RowState"
            )
        metric = self.metric
        if metric is None:
            return state
        where = (self.surface, self.dynamics, self.solver)
        every = torch.arange(len(position), device=position.device)
        clock.time_gradient(self.surface, position)
        return clock.frames(state, lambda: (metric.begin(state, *where, numbers), every))

    def tick(self, state: RowState) -> RowState:
        """Try one step of every active row."""
        before = state
        state = self.solver.advance(state, self.surface, self.dynamics, self.times)
        if self.metric is not None:
            state = self.metric.follow(before, state)
        return state if self.stop is None else _apply_stop(state, self.stop)

    def refresh(self, state: RowState, clock: Clock) -> RowState:
        """A new metric, or a fresh start, for the rows that wait for it."""
        metric = self.metric
        if metric is not None:
            where, before = (self.surface, self.dynamics, self.solver), state
            state = clock.frames(state, lambda: metric.refresh(before, *where))
            if not (state.refreshing & state.running).any():
                return state  # the solver would evaluate the whole batch for no row
        return self.solver.refresh(state, self.surface, self.dynamics)


def _apply_stop(state: RowState, stop: StopCondition) -> RowState:
    norm = torch.linalg.vector_norm(state.frame.raw(state.gradient), dim=-1).double()
    over = stop(state.time, state.moment.loss, state.moment.kinetic, norm)
    over = over & state.running & (state.ledger.steps > 0)
    return replace(state, status=torch.where(over, Status.AT_REST.code, state.status))
