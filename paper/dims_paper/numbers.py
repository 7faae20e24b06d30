"""The 872 numbers of the paper's tables, to put beside our own.

They are facts, carried in `paper_tables.csv`. The t1 and η0 of the main tables are filled in
from the appendix. `error_kind` says what an error is: over seeds, over samples or batches, or
(banana) a standard deviation that the paper calls a standard error.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class PaperNumber:
    """One cell of a table; what the paper does not give is None."""

    table: str
    dataset: str
    split: str
    evaluated_on: str | None
    method: str
    t1: float | None
    eta0: float | None
    metric: str
    mean: float
    error: float | None
    error_kind: str | None


@cache
def paper_numbers() -> tuple[PaperNumber, ...]:
    """All cells, in the order of the paper."""
    text = resources.files(__package__).joinpath("paper_tables.csv").read_text(encoding="utf-8")
    return tuple(_parsed(row) for row in csv.DictReader(text.splitlines()))


def select(**wanted: str | float | None) -> tuple[PaperNumber, ...]:
    """All cells that agree with every argument given; the arguments are fields of `PaperNumber`."""
    given = {field: value for field, value in wanted.items() if value is not None}
    return tuple(
        cell
        for cell in paper_numbers()
        if all(getattr(cell, field) == value for field, value in given.items())
    )


def lookup(**wanted: str | float | None) -> PaperNumber:
    """The one cell that agrees with every argument given; LookupError if none or several do."""
    cells = select(**wanted)
    if not cells:
        raise LookupError("no number of the paper agrees with all of the arguments")
    if len(cells) > 1:
        raise LookupError(
            f"{len(cells)} numbers of the paper agree with the arguments; the first two are "
            f"{cells[0]} and {cells[1]}: give more arguments"
        )
    return cells[0]


def _parsed(row: dict[str, str]) -> PaperNumber:
    """A line of the file; an empty cell is None."""
    row["error"] = row.pop("standard_error")
    found: dict[str, Any] = {field: value or None for field, value in row.items()}
    for field in ("t1", "eta0", "mean", "error"):
        found[field] = None if found[field] is None else float(found[field])
    return PaperNumber(**found)
