"""Read the small text tables; whatever the bytes, the outcome is a table or a ValueError.

Written out instead of `numpy.loadtxt` so that every complaint names the file and the line, and
so that nothing odd passes: ASCII only, finite numbers up to 1e30, equally long rows.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_LARGEST = 64 * 2**20
# No feature comes near it, and squares and sums of larger values would overflow later on.
_LARGEST_VALUE = 1e30


def read_matrix(path: Path, delimiter: str | None = None) -> NDArray[np.float64]:
    """A table of numbers, one row a line; without a delimiter, fields are split at blanks."""
    rows = [_numbers(path, number, line.split(delimiter)) for number, line in _lines(path)]
    return _stack(path, rows)


def read_labelled(path: Path) -> tuple[NDArray[np.float64], list[str]]:
    """Features and labels of a comma-separated table whose header ends in `class`."""
    lines = _lines(path)
    header = lines[0][1].split(",")
    if header[-1] != "class":
        raise ValueError(f"{path}: the last column of the header is not `class`")
    rows, labels = [], []
    for number, line in lines[1:]:
        *fields, label = (field.strip() for field in line.split(","))
        if len(fields) + 1 != len(header):
            raise ValueError(
                f"{path}, line {number}: {len(fields) + 1} fields, the header has {len(header)}"
            )
        if not label:
            raise ValueError(f"{path}, line {number}: the class label is empty")
        rows.append(_numbers(path, number, fields))
        labels.append(label)
    return _stack(path, rows), labels


def _lines(path: Path) -> list[tuple[int, str]]:
    """The non-empty lines with their numbers."""
    with path.open("rb") as stream:
        content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{path} is larger than {_LARGEST} bytes: not one of the text tables")
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not ASCII text") from None
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1)]
    lines = [(number, line) for number, line in lines if line]
    if not lines:
        raise ValueError(f"{path} is empty")
    return lines


def _numbers(path: Path, number: int, fields: list[str]) -> list[float]:
    values = []
    for field in fields:
        try:
            # float() would take the underscores of Python literals.
            value = math.nan if "_" in field else float(field)
        except ValueError:
            value = math.nan
        # Written so that nan fails too.
        if not abs(value) <= _LARGEST_VALUE:
            raise ValueError(f"{path}, line {number}: {field[:40]!r} is not a usable number")
        values.append(value)
    return values


def _stack(path: Path, rows: list[list[float]]) -> NDArray[np.float64]:
    lengths = sorted({len(row) for row in rows})
    if not rows or lengths[0] == 0:
        raise ValueError(f"{path} holds no data")
    if len(lengths) > 1:
        raise ValueError(f"{path}: rows have different lengths ({lengths[0]} to {lengths[-1]})")
    return np.array(rows, dtype=np.float64)
