"""Lines and cells of a file as a person is told of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["SHOWN_CELLS", "counted", "lines_named", "none_of"]

SHOWN_CELLS = 5
LONGEST = 40  # characters of a cell


def lines_named(lines: np.ndarray) -> str:
    """ "line 3", or the first of many and how many more there are."""
    listed, more = ", ".join(str(line) for line in lines[:SHOWN_CELLS]), len(lines) - SHOWN_CELLS
    return f"line{'s' * (len(lines) > 1)} {listed}{f' and {more} more' if more > 0 else ''}"


def counted(count: int | np.integer, what: str) -> str:
    """ "1 row", "2 rows"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def none_of(cells: Iterable[object], verb: str) -> str:
    """ "'x' is not", or "none of 'x', 'y' is", for different cells and a verb such as "is"."""
    distinct = [repr(cell[:LONGEST]) for cell in dict.fromkeys(str(cell) for cell in cells)]
    if len(distinct) == 1:
        return f"{distinct[0]} {verb} not"
    more = ", …" * (len(distinct) > SHOWN_CELLS)
    return f"none of {', '.join(distinct[:SHOWN_CELLS])}{more} {verb}"
