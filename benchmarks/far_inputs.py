"""Inputs that no training row resembles, for out-of-distribution scores on tables."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["DISTANCE", "far_inputs"]

DISTANCE = 5.0  # training standard deviations; inputs are standardised


def far_inputs(inputs: Tensor, seed: int) -> dict[str, Tensor]:
    """Test rows changed in two ways.

    Args:
        inputs: Standardised test inputs, (N, D).
        seed: Of permutations and directions.

    Returns:
        "permuted": each column permuted on its own; "moved": each row moved by `DISTANCE` in a
        random direction.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(len(inputs), generator=generator) for _ in range(inputs.shape[1])]
    columns = [inputs[order.to(inputs.device), number] for number, order in enumerate(rows)]
    directions = torch.randn(inputs.shape, generator=generator, dtype=torch.float64)
    directions = directions / directions.norm(dim=1, keepdim=True)
    return {
        "permuted": torch.stack(columns, dim=1),
        "moved": inputs + DISTANCE * directions.to(inputs),
    }
