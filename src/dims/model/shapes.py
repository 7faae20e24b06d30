"""Names for the tensor shapes that run through the package, and checks of them.

S trajectories are the rows of a batch, K parameters its columns. With jaxtyping installed the
names are checked in the tests; without it they are plain tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

__all__ = [
    "RowFlags",
    "RowIntegers",
    "RowScalars",
    "RowVectors",
    "Times",
    "Vector",
    "check_rows",
    "check_vectors",
]

if TYPE_CHECKING:
    RowScalars = Tensor
    RowVectors = Tensor
    RowFlags = Tensor
    RowIntegers = Tensor
    Times = Tensor
    Vector = Tensor
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:
        RowScalars = RowVectors = RowFlags = RowIntegers = Times = Vector = Any
    else:
        RowScalars = Float[Tensor, "rows"]
        RowVectors = Float[Tensor, "rows size"]
        RowFlags = Bool[Tensor, "rows"]
        RowIntegers = Int[Tensor, "rows"]
        Times = Float[Tensor, "times"]
        Vector = Float[Tensor, "size"]


def check_rows(name: str, rows: Tensor) -> None:
    """Rows must be a real floating-point tensor (S, K)."""
    if not isinstance(rows, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(rows).__name__}")
    if not rows.is_floating_point():
        raise TypeError(f"{name}: expected floating-point numbers, got {rows.dtype}; use .float()")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"{name}: expected shape (rows, parameters), got {tuple(rows.shape)}")


def check_vectors(thetas: Tensor, vectors: Tensor) -> None:
    """One vector for each row."""
    check_rows("vectors", vectors)
    if vectors.shape != thetas.shape:
        raise ValueError(
            f"vectors: shape {tuple(vectors.shape)} does not match the rows {tuple(thetas.shape)}"
        )
