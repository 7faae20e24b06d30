"""Banana: 5300 points in the plane, two interleaved classes."""

from __future__ import annotations

import numpy as np
import torch

from dims_paper.datasets.locate import find
from dims_paper.datasets.splits import Split, train_test_indices
from dims_paper.datasets.text import read_matrix


def load_banana(seed: int, train_points: int = 265, *, dtype: torch.dtype = torch.float64) -> Split:
    """`train_points` rows chosen by the seed for training, all others for test; no scaling.

    The classes 1 and 2 of the file become targets 0 and 1; there is no validation part.
    """
    path = find("banana/banana.csv")
    table = read_matrix(path, delimiter=",")
    if table.shape[1] != 3 or not np.isin(table[:, 2], (1.0, 2.0)).all():
        raise ValueError(f"{path}: expected two coordinates and a class 1 or 2 in every row")
    if not 0 < train_points < len(table):
        raise ValueError(
            f"train_points must lie between 1 and {len(table) - 1}, got {train_points}"
        )
    train, test = train_test_indices(len(table), train_points, seed)
    inputs = torch.from_numpy(table[:, :2]).to(dtype)
    targets = torch.from_numpy(table[:, 2].astype(np.int64) - 1)
    return Split(
        train_inputs=inputs[train],
        train_targets=targets[train],
        test_inputs=inputs[test],
        test_targets=targets[test],
        validation_inputs=inputs[:0],
        validation_targets=targets[:0],
        classes=2,
        class_names=("1", "2"),
    )
