"""Names for the tensor shapes that run through the package, and checks of them.

S trajectories are the rows of a batch, K parameters its columns. With jaxtyping installed the
names are checked in the tests; without it they are plain tensors.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

__all__ = ["RowFlags", "RowIntegers", "RowScalars", "RowVectors", "Times", "Vector"]
__all__ += [
    "check_flag",
    "check_integer",
    "check_positive",
    "check_prior",
    "check_rows",
    "check_vectors",
]

if TYPE_CHECKING or find_spec("jaxtyping") is None:
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
else:
    from jaxtyping import Bool, Float, Int

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


def check_integer(name: str, value: Any, lowest: int = 1) -> int:
    """A whole number of at least `lowest`, as an int."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (whole and lowest <= value < 2**63):
        raise ValueError(f"{name}: expected a whole number, at least {lowest}, got {value!r}")
    return int(value)


def check_positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    """A finite number, positive or, with `or_zero`, not negative, as a float."""
    known = isinstance(value, (Real, Tensor)) and math.isfinite(value)
    if not (known and (value >= 0 if or_zero else value > 0)):
        kind = "finite and not negative" if or_zero else "positive and finite"
        raise ValueError(f"{name}: must be {kind}, got {value!r}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """True or False; a word such as "no" would count as true."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return value


def check_prior(prior_precision: float | Tensor, size: int, like: Tensor) -> Tensor:
    """δ as a 0-d tensor or a vector (K,), in the precision and on the device of another tensor."""
    if isinstance(prior_precision, (str, bytes)) or prior_precision is None:
        raise TypeError(f"prior_precision: expected a number or a vector, got {prior_precision!r}")
    prior = torch.as_tensor(prior_precision, dtype=like.dtype, device=like.device).detach()
    if prior.ndim > 1 or (prior.ndim == 1 and len(prior) != size):
        raise ValueError(
            f"prior_precision: expected a number or a vector of length {size}, got shape "
            f"{tuple(prior.shape)}"
        )
    if not torch.isfinite(prior).all() or (prior < 0).any():
        raise ValueError("prior_precision: must be finite and not negative")
    return prior
