"""Lists, arrays and data frames in the place of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["as_arrays"]


def as_arrays(name: str, given: Any) -> Any:
    """Numbers in nested lists, data frames and series as arrays; the rest as it is.

    A list of tensors or arrays stays a list: it holds the several inputs of a network.

    Args:
        name: Of the argument, for errors.
        given: What the user gave: a tensor, an array, a list, or a dict of these.

    Returns:
        The same structure with tensors and arrays for leaves.

    Raises:
        TypeError: It holds text or other things that are not numbers.
        ValueError: Lists of numbers have different lengths.
    """
    if isinstance(given, Tensor):
        return given
    if hasattr(given, "to_numpy"):  # pandas, polars
        return _numbers(name, given.to_numpy())
    if isinstance(given, np.ndarray):
        return _numbers(name, given)
    if isinstance(given, Mapping):
        return {key: as_arrays(name, value) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        leaf = given
        while isinstance(leaf, (list, tuple)) and len(leaf):
            leaf = leaf[0]
        if not isinstance(leaf, (Number, str, bytes)):
            return type(given)(as_arrays(name, part) for part in given)
        try:
            return _numbers(name, np.asarray(given))
        except ValueError as error:
            raise ValueError(
                f"{name}: a list of points with different lengths; give all points the same "
                "number of features"
            ) from error
    return given


def _numbers(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name}: expected numbers, got {array.dtype}; turn text and categories into numbers, "
            "and objects with array.astype(float)"
        )
    # Frames give their own memory, to be read only, of which torch warns.
    return array if array.flags.writeable else array.copy()
