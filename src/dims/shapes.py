"""Names for the tensor shapes that run through the package.

S trajectories are the rows of a batch, K parameters its columns. With jaxtyping installed the
names are checked in the tests; without it they are plain tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

__all__ = ["RowFlags", "RowIntegers", "RowScalars", "RowVectors", "Times", "Vector"]

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
