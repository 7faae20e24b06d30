"""How much to compute at once: chunks of rows and points whose activations fit a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

__all__ = ["Chunks", "default_memory_budget", "measure_bytes_per_point"]

SMALLEST_BUDGET = 2**30  # bytes of activations alive at once
PART_OF_A_GPU = 8
# A core computes rows whose activations leave its caches slower, up to by half, than one by one.
CPU_CACHE = 2**25


def default_memory_budget(device: torch.device) -> int:
    """A gigabyte, or an eighth of a GPU's memory where that is more: a GPU wants large pieces."""
    if device.type != "cuda":
        return SMALLEST_BUDGET
    total = torch.cuda.get_device_properties(device).total_memory
    return max(SMALLEST_BUDGET, total // PART_OF_A_GPU)


@dataclass(frozen=True)
class Chunks:
    """How many rows and points keep rows × points × bytes a point within the budget."""

    budget: int
    bytes_per_point: int
    cache: int | None = None  # bytes that rows at once should not exceed, though a row alone may

    @classmethod
    def on(cls, device: torch.device, budget: int, bytes_per_point: int) -> Chunks:
        return cls(budget, bytes_per_point, None if device.type == "cuda" else CPU_CACHE)

    def rows(self, total: int, points: int) -> list[slice]:
        """Groups of nearly equal size; on a GPU mostly one, all rows at once."""
        fitting = self.budget // self.bytes_per_point
        if self.cache is not None:
            fitting = min(fitting, self.cache // (self.bytes_per_point * points))
        groups = math.ceil(total / max(1, fitting))
        ends = [total * number // groups for number in range(groups + 1)]
        return [slice(start, stop) for start, stop in pairwise(ends)]

    def points(self, rows: slice) -> int:
        """Points at a time for these rows."""
        return max(1, int(self.budget // ((rows.stop - rows.start) * self.bytes_per_point)))


def measure_bytes_per_point(run: Callable[[int], object]) -> int:
    """Bytes that autograd keeps for one more point, from `run` on one and on nine points."""

    def saved_bytes(points: int) -> int:
        storages: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            storages[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            # The tensor itself would keep its own graph alive, in a cycle that nothing collects.
            return tensor.detach()

        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            run(points)
        return sum(storages.values())

    # Twice what is saved: the forward pass and the gradients of activations live beside it.
    return max(64, 2 * (saved_bytes(9) - saved_bytes(1)) // 8)
