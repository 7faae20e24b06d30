"""A batch in the middle of its trajectories as plain tensors, so that it can continue later.

The continued run is bitwise identical to one that was never interrupted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from dims.errors import SnapshotError

__all__ = ["Checkpoint", "flatten", "restore"]

State = TypeVar("State")
# Names that earlier versions gave to fields of a state: new -> old.
FORMER_NAMES = {"proposed_step": "wish", "accumulated_error": "debt"}  # old name
FORMER_NAMES["metric_length"] = "arc_length"  # the same before there was another metric
# Fields that earlier versions did not have; in their states all were zero.
ADDED = (
    "refresh_time",
    "basis",
    "softening",
    "scale",
    "level",
    "turned",
    "speed",
    "refreshes",
    "number",
)


@runtime_checkable
class Checkpoint(Protocol):
    """Where a batch leaves its state now and then, and finds it when it starts again."""

    def load(self) -> dict[str, Tensor] | None: ...

    def offer(self, pack: Callable[[], dict[str, Tensor]]) -> None:
        """The batch can be left here: `pack` gives its state until the next offer.

        Write or copy the tensors at once: some change in place when the run goes on. Whoever
        catches an interrupt may call it too, since `held` blocks let none come in between.
        """
        ...

    def refuse(self, error: SnapshotError) -> None:
        """What was loaded does not fit; the batch starts anew."""
        ...


def flatten(state: Any, name: str) -> dict[str, Tensor]:
    """The tensors of nested dataclasses, by their path."""
    found: dict[str, Tensor] = {}
    for field in dataclasses.fields(state):
        value, path = getattr(state, field.name), f"{name}.{field.name}"
        found |= {path: value} if isinstance(value, Tensor) else flatten(value, path)
    return found


def restore(template: State, name: str, tensors: dict[str, Tensor], rows: int) -> State:
    """The inverse of `flatten`: kinds and sizes as in the template, but for the number of rows."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(template):  # type: ignore[arg-type]
        value, path = getattr(template, field.name), f"{name}.{field.name}"
        if not isinstance(value, Tensor):
            fields[field.name] = restore(value, path, tensors, rows)
            continue
        former = f"{name}.{FORMER_NAMES.get(field.name, field.name)}"
        found = tensors.get(path, tensors.get(former))
        with_directions = value.ndim > 1 and value.shape[1] > 0  # F = 0 would be no frame
        if found is None and field.name in ADDED and not with_directions:
            found = value.new_zeros(rows, *value.shape[1:])
        if found is None or found.dtype != value.dtype or found.shape != (rows, *value.shape[1:]):
            raise SnapshotError(f"{path} is missing or of another kind")
        fields[field.name] = found.to(value.device)
    return dataclasses.replace(template, **fields)  # type: ignore[type-var]
