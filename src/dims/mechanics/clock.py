"""How long frames of a moving metric take, in units of one gradient of one row of the batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from dims.mechanics.solvers.base import RowState
from dims.model.shapes import RowVectors
from dims.surface.base import BaseSurface

__all__ = ["Clock"]


class Clock:
    """Seconds of one gradient of one row, and of what rows do beside.

    Args:
        device: Where the rows are; a GPU is waited for.
        running: False never looks at the time, as in the euclidean metric.
        compiled: Whether steps are, so that a gradient alone is slower than inside of one.
    """

    def __init__(self, device: torch.device, running: bool, compiled: bool) -> None:
        self.device = device
        self.running = running
        self.compiled = compiled
        self.gradient = 1.0

    def time_gradient(self, surface: BaseSurface, position: RowVectors) -> None:
        """The faster of two gradients of the whole batch, for one row."""
        if self.running:
            times = [self._seconds(lambda: surface.value_and_grad(position)) for _ in range(2)]
            self.gradient = max(min(times), 1e-9) / len(position)

    def step(self, step_many: Callable[[RowState], RowState], state: RowState) -> RowState:
        """Advance; the fastest evaluation of a row in a compiled step counts as its gradient."""
        if not (self.running and self.compiled):
            return step_many(state)
        start = self._now()
        after = step_many(state)
        taken = self._now() - start
        spent = int((after.ledger.evaluations - state.ledger.evaluations).sum())
        if spent > 0:
            self.gradient = min(self.gradient, taken / spent)
        return after

    def frames(self, state: RowState, choose: Callable[[], tuple[RowState, Tensor]]) -> RowState:
        """Choose frames, and enter the time that each of their rows took in its ledger."""
        start = self._now()
        state, rows = choose()
        if len(rows) == 0:
            return state
        share = torch.full_like(rows, (self._now() - start) / len(rows), dtype=torch.float64)
        spent = state.ledger.refresh_time.index_add(0, rows, share)
        return replace(state, ledger=replace(state.ledger, refresh_time=spent))

    def _seconds(self, call: Callable[[], object]) -> float:
        start = self._now()
        call()
        return self._now() - start

    def _now(self) -> float:
        """On a CPU the core-seconds of the process, which other programs hardly affect."""
        if self.device.type != "cuda":
            return time.process_time()
        torch.cuda.synchronize(self.device)
        return time.perf_counter()
