"""How much to compute at once: chunks of rows and points whose activations fit a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Chunks", "default_memory_budget", "measure_bytes_per_point"]

SMALLEST_BUDGET = 2**30  # bytes of activations alive at once
PART_OF_A_GPU = 8


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

    def rows(self, total: int) -> list[slice]:
        """All rows at once unless a single point of all of them is already over the budget."""
        fitting = max(1, int(self.budget // self.bytes_per_point))
        return [slice(i, min(i + fitting, total)) for i in range(0, total, fitting)]

    def points(self, rows: slice) -> int:
        """Points at a time for these rows."""
        return max(1, int(self.budget // ((rows.stop - rows.start) * self.bytes_per_point)))


def measure_bytes_per_point(run: Callable[[int], object]) -> int:
    """Bytes that autograd keeps for one more point, from `run` on one and on nine points."""

    def saved_bytes(points: int) -> int:
        storages: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            storages[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            return tensor

        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            run(points)
        return sum(storages.values())

    # Twice what is saved: the forward pass and the gradients of activations live beside it.
    return max(64, 2 * (saved_bytes(9) - saved_bytes(1)) // 8)
