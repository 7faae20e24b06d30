"""The columns of a table as numbers, dates and text, and the cells that do not fit them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dims.errors import TableError
from dims.estimators.tables.cells import parse_numbers
from dims.estimators.tables.columns import (
    BAD_CELLS,
    CATEGORY,
    DATE,
    LEFT_OUT,
    NUMBER,
    parse_dates,
    unit_of,
)
from dims.estimators.tables.decimals import has_other_sign
from dims.estimators.tables.naming import lines_named, none_of
from dims.estimators.tables.reading import TextTable, shown

__all__ = ["note_bad_cells", "number_columns", "typed_inputs", "used"]


def used(columns: Mapping[str, str]) -> list[str]:
    """The columns that are not left out."""
    return [name for name, kind in columns.items() if kind != LEFT_OUT]


def number_columns(columns: Mapping[str, str]) -> list[str]:
    """The columns of numbers."""
    return [name for name, kind in columns.items() if unit_of(kind) is not None]


def typed_inputs(
    text: TextTable, columns: Mapping[str, str], notes: list[str], rows: np.ndarray
) -> tuple[pd.DataFrame, list[str]]:
    """The columns that are used, each as its kind says, and what is said about those of which too
    large a part of these rows is of another kind."""
    made, wrong = {}, []
    for name in used(columns):
        kind, cells = columns[name], text.cells[name]
        if kind == CATEGORY:
            made[name] = cells.astype("object").where(cells.notna(), None)
            continue
        unit = unit_of(kind)
        if unit is not None:
            values = parse_numbers(cells, text.format.decimal, unit)
        elif kind.startswith(f"{DATE} "):
            values = _dates(name, cells, kind.removeprefix(f"{DATE} "))
        else:
            raise TableError(
                f"COLUMNS: {name!r} is {kind!r}; a column is a {NUMBER!r}, one with a unit such "
                f"as 'number kg', a {CATEGORY!r}, a date with its form such as 'date %Y-%m-%d', or "
                f"{LEFT_OUT!r}"
            )
        bad = (values.isna() & cells.notna()).to_numpy()
        made[name] = values
        count, filled = int(bad[rows].sum()), int(cells.notna().to_numpy()[rows].sum())
        if count > BAD_CELLS * filled:
            first = cells[rows & bad].iloc[:1]
            why = "" if unit is None else has_other_sign(first, text.format.decimal, unit)
            wrong.append(
                f"{name!r} is a {kind!r}, but {count} of {filled} cells of {shown(text.path)} that "
                f"are not empty cannot be read so, as {first.iloc[0][:40]!r}"
                + (f" ({why})" if why else "")
            )
            continue
        note_bad_cells(text, name, bad, kind, "taken as missing", notes)
    if not made:
        raise TableError("COLUMNS: every column is left out; a network needs one")
    return pd.DataFrame(made), wrong


def _dates(name: str, cells: pd.Series, form: str) -> pd.Series:
    try:
        return parse_dates(cells, form)
    except ValueError as error:
        raise TableError(f"COLUMNS: {name!r} has no form of dates: {error}") from error


def note_bad_cells(
    text: TextTable, name: str, bad: np.ndarray, kind: str, done: str, notes: list[str]
) -> None:
    """Lines, column and content of cells that are not what they should be."""
    if bad.any():
        unit, cells = unit_of(kind), text.cells[name][bad]
        wanted = f"{NUMBER} in {unit}" if unit else kind
        why = "" if unit is None else has_other_sign(cells, text.format.decimal, unit)
        notes.append(
            f"{lines_named(text.lines[bad])}, column {name!r}: {none_of(cells, 'is')} a {wanted}"
            f"{f' ({why})' if why else ''}; {done}"
        )
