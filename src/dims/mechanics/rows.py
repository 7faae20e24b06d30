"""Per-row state: plain dataclasses of tensors whose first dimension is the row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["map_tensors", "merge", "next_step", "select_rows", "too_short"]

State = TypeVar("State")


def map_tensors(function: Callable[..., Tensor], state: State, *others: State) -> State:
    """The same dataclass with `function` applied to each tensor (and its peers in `others`)."""
    fields = {}
    for field in dataclasses.fields(state):  # type: ignore[arg-type]
        values = [getattr(each, field.name) for each in (state, *others)]
        apply = isinstance(values[0], Tensor)
        fields[field.name] = function(*values) if apply else map_tensors(function, *values)
    return dataclasses.replace(state, **fields)  # type: ignore[type-var]


def select_rows(state: State, rows: Tensor) -> State:
    """The same state with only the given rows."""
    return map_tensors(lambda tensor: tensor[rows], state)


def merge(mask: Tensor, new: State, old: State) -> State:
    """`new` in the rows of the mask, `old` in the others; what they share is not touched."""
    fields = {}
    for field in dataclasses.fields(new):  # type: ignore[arg-type]
        a, b = getattr(new, field.name), getattr(old, field.name)
        if a is b:
            fields[field.name] = b
        elif isinstance(a, Tensor):
            fields[field.name] = a.where(mask.view(-1, *(1,) * (a.ndim - 1)), b)
        else:
            fields[field.name] = merge(mask, a, b)
    return dataclasses.replace(old, **fields)  # type: ignore[type-var]


def next_step(proposed: Tensor, remaining: Tensor) -> Tensor:
    """The proposed step, or what lands on the next goal; two equal steps rather than a sliver."""
    step = torch.where(proposed * (1 + 1e-9) >= remaining, remaining, proposed)
    return torch.where((step < remaining) & (2 * step > remaining), 0.5 * remaining, step)


def too_short(step: Tensor, time: Tensor, end: Tensor) -> Tensor:
    """A step that no longer counts beside the time passed, or beside the whole.

    At a wall every second, ever shorter step may be accepted, so rejections in a row do not tell.
    """
    return step < torch.maximum(1e-13 * time, 1e-15 * end)
