"""How long refreshes take, in units of one gradient of one row of the same batch."""

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
    """Seconds of one gradient of one row, and of what rows do beside."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.gradient = 1.0

    def time_gradient(self, surface: BaseSurface, position: RowVectors) -> None:
        """The faster of two gradients of the whole batch, for one row."""
        times = []
        for _ in range(2):
            start = self._now()
            surface.value_and_grad(position)
            times.append(self._now() - start)
        self.gradient = max(min(times), 1e-9) / len(position)

    def timed(
        self, state: RowState, refresh: Callable[[RowState], tuple[RowState, Tensor]]
    ) -> RowState:
        """Refresh, and enter each refreshed row's share of the time in its ledger."""
        start = self._now()
        state, rows = refresh(state)
        if len(rows) == 0:
            return state
        share = (self._now() - start) / len(rows)
        spent = state.ledger.refresh_time.index_add(
            0, rows, torch.full_like(rows, share, dtype=torch.float64)
        )
        return replace(state, ledger=replace(state.ledger, refresh_time=spent))

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
