"""Checks of numbers that functions are given; each error names the argument."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

__all__ = ["check_integer", "check_positive"]


def check_integer(name: str, value: Any, lowest: int = 1) -> None:
    """A whole number of at least `lowest`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (whole and lowest <= value < 2**63):
        raise ValueError(f"{name}: expected a whole number, at least {lowest}, got {value!r}")


def check_positive(name: str, value: Any, *, or_zero: bool = False) -> None:
    """A finite number, positive or, with `or_zero`, not negative."""
    known = isinstance(value, Real) and math.isfinite(value)
    if not (known and (value >= 0 if or_zero else value > 0)):
        kind = "finite and not negative" if or_zero else "positive and finite"
        raise ValueError(f"{name}: must be {kind}, got {value!r}")
