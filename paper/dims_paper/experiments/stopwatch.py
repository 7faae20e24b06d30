"""A limit on the seconds of a batch, counted over all calls that go on with it."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from dims.errors import SnapshotError
from dims.model.shapes import RowFlags, RowScalars
from dims_paper.experiments.runs import save_tensors

__all__ = ["Stopwatch"]


class Stopwatch:
    """Stops a batch after so many seconds, and keeps it in a file with the seconds it has had."""

    def __init__(self, path: Path, limit: float, every: float = 30.0) -> None:
        self.path, self.limit, self.every = path, limit, every
        self.before = 0.0
        self.began = self.last = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Spent on the batch so far, in all calls."""
        return self.before + time.perf_counter() - self.began

    def __call__(
        self,
        time: RowScalars,
        loss: RowScalars,
        kinetic_energy: RowScalars,
        gradient_norm: RowScalars,
    ) -> RowFlags:
        return torch.full_like(time, self.seconds > self.limit, dtype=torch.bool)

    def load(self) -> dict[str, Tensor] | None:
        if not self.path.exists():
            return None
        tensors = load_file(self.path)
        self.before = float(tensors.pop("seconds"))
        return tensors

    def due(self) -> bool:
        return time.perf_counter() - self.last >= self.every

    def save(self, tensors: dict[str, Tensor]) -> None:
        seconds = torch.tensor(self.seconds, dtype=torch.float64)
        save_tensors({**tensors, "seconds": seconds}, self.path)
        self.last = time.perf_counter()

    def refuse(self, error: SnapshotError) -> None:
        self.before = 0.0
