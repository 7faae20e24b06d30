"""Rows that stand in the data more than once.

Who leaves out one of two equal rows still knows it. Scores of rows that were left out or held out
then praise what was learnt by heart, so copies are left out together and stay in one part of a
split.

Equal rows are not always copies. Where inputs have few values, as in a table of yes and no, the
same inputs come again by nature. Then their targets differ now and then, or the same row is a large
part of the data; such rows count as rows of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from dims.model.training_data import Inputs, map_inputs

__all__ = ["copy_groups", "equal_rows", "group_sizes", "parts_of"]

MOST_DIFFERENT = 0.1  # of the rows whose inputs repeat: so many may have another target
LARGEST_SHARE = 0.05  # of all rows, of one group of copies


def copy_groups(inputs: Sequence[Hashable], targets: Sequence[Hashable]) -> Tensor | None:
    """The group of each row, (n,): copies of a row share one. None where no row has a copy.

    Args:
        inputs: What stands for the inputs of a row; equal where they are equal.
        targets: The same for its target.
    """
    by_inputs = _numbered(inputs)
    groups = _numbered([*zip(by_inputs.tolist(), targets, strict=True)])
    same_inputs, same_rows = (np.bincount(g)[g] for g in (by_inputs, groups))
    repeated = same_inputs > 1
    if (repeated & (same_rows < same_inputs)).sum() > MOST_DIFFERENT * repeated.sum():
        return None
    points = len(groups)
    single = (same_rows == 1) | (same_rows > max(2, LARGEST_SHARE * points))
    groups[single] = np.arange(points)[single]  # a number is that of the first row of its group
    return None if single.all() else torch.from_numpy(groups)


def equal_rows(inputs: Inputs, targets: Tensor) -> Tensor | None:
    """`copy_groups` of training data, by the bits of their numbers."""
    parts: list[list[bytes]] = []
    map_inputs(lambda tensor: parts.append(_digests(tensor)), inputs)
    return copy_groups([*zip(*parts, strict=True)], _digests(targets))


def group_sizes(groups: Tensor | None, points: int) -> Tensor:
    """How often each row stands in the data, (n,)."""
    if groups is None:
        return torch.ones(points, dtype=torch.int64)
    return groups.bincount(minlength=points)[groups]


def parts_of(order: Tensor, counts: Sequence[int], groups: Tensor | None) -> list[Tensor]:
    """The first so many rows of an order, the next so many, and the rest.

    Copies follow the first of them, and a part that ends between two of them ends after the last.
    """
    if groups is None:
        return [*order.split([*counts, len(order) - sum(counts)])]
    first = torch.from_numpy(_numbered(groups[order].tolist()))
    first, together = first.sort(stable=True)
    cuts = [0]
    for count in counts:
        end = min(cuts[-1] + count, len(order))
        while 0 < end < len(order) and first[end] == first[end - 1]:
            end += 1
        cuts.append(end)
    order = order[together]
    return [order[a:b] for a, b in zip(cuts, [*cuts[1:], len(order)], strict=True)]


def _numbered(values: Sequence[Hashable]) -> np.ndarray:
    """For each value the place of the first that equals it."""
    first: dict[Hashable, int] = {}
    return np.array([first.setdefault(value, i) for i, value in enumerate(values)], dtype=np.int64)


def _digests(tensor: Tensor) -> list[bytes]:
    rows = np.ascontiguousarray(tensor.detach().cpu().flatten(1 if tensor.ndim > 1 else 0).numpy())
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
