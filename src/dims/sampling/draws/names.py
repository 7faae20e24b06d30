"""Names of single parameters, as a person would index them: layer.weight[3, 2]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

__all__ = ["parameter_name", "parameter_names"]

Tensors = Iterable[tuple[str, Sequence[int]]]  # names and shapes, in the order of θ


def parameter_names(tensors: Tensors) -> Iterator[str]:
    """The names of all entries of θ, in order."""
    for name, shape in tensors:
        for index in product(*map(range, shape)):
            yield _indexed(name, index)


def parameter_name(tensors: Tensors, place: int) -> str:
    """The name of one entry of θ, without making the others."""
    for name, shape in tensors:
        size = 1
        for length in shape:
            size *= length
        if place < size:
            index: list[int] = []
            for length in reversed(shape):
                place, last = divmod(place, length)
                index.insert(0, last)
            return _indexed(name, index)
        place -= size
    raise IndexError("place: beyond the last parameter")


def _indexed(name: str, index: Sequence[int]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name
