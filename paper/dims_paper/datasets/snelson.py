"""Snelson's one-dimensional regression task."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dims_paper.datasets.locate import find
from dims_paper.datasets.text import read_matrix


@dataclass(frozen=True, eq=False)
class Snelson:
    """Training pairs, the gap's pairs (out of distribution) and test inputs without targets.

    Every tensor has shape (N, 1); without a gap its two tensors have zero rows.
    """

    train_inputs: Tensor
    train_targets: Tensor
    gap_inputs: Tensor
    gap_targets: Tensor
    test_inputs: Tensor


def load_snelson(
    gap: tuple[float, float] | None = None, *, dtype: torch.dtype = torch.float64
) -> Snelson:
    """The 200 training points and 301 test inputs, in the order of the files.

    Points whose input lies in the closed interval `gap` are taken out of the training set: the
    paper's `gap=(1.5, 3.0)` leaves 148 for training and 52 out of distribution.
    """
    if gap is not None and not gap[0] <= gap[1]:
        raise ValueError(f"gap must be (lower, upper) with lower <= upper, got {gap}")
    inputs = _column("snelson/train_inputs.txt", dtype)
    targets = _column("snelson/train_outputs.txt", dtype)
    if len(inputs) != len(targets):
        raise ValueError(f"snelson: {len(inputs)} training inputs but {len(targets)} outputs")
    inside = torch.zeros(len(inputs), dtype=torch.bool)
    if gap is not None:
        inside = ((inputs >= gap[0]) & (inputs <= gap[1])).squeeze(1)
    return Snelson(
        train_inputs=inputs[~inside],
        train_targets=targets[~inside],
        gap_inputs=inputs[inside],
        gap_targets=targets[inside],
        test_inputs=_column("snelson/test_inputs.txt", dtype),
    )


def _column(path: str, dtype: torch.dtype) -> Tensor:
    location = find(path)
    table = read_matrix(location)
    if table.shape[1] != 1:
        raise ValueError(f"{location}: expected one number a line, got {table.shape[1]}")
    return torch.from_numpy(table).to(dtype)
