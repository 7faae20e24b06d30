"""What a person should know about the decimal sign of a table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dims.errors import TableWarning
from dims.estimators.tables.decimals import OTHER_SIGN, differ, told_by, with_both_signs
from dims.estimators.tables.reading import TextTable, shown

__all__ = ["other_decimal_sign", "with_its_decimal_sign"]

SHOWN = 3  # cells


def other_decimal_sign(table: TextTable) -> str:
    """A sentence where all numbers would be some with the other decimal sign too; else "".

    Args:
        table: The file as text.
    """
    columns = [table.cells[name] for name in table.cells]
    cells = pd.concat(columns, ignore_index=True).dropna()
    # Between commas a point that groups thousands would leave no decimal sign.
    cells = cells[cells.str.contains("[,]" if table.format.separator == "," else "[,.]")]
    read, usual = with_both_signs(cells), table.format.decimal
    other = OTHER_SIGN[usual]
    if not differ(read).any() or any(told_by(read, sign).any() for sign in OTHER_SIGN):
        return ""
    first = differ(read).idxmax()
    return (
        f"decimal sign: taken as {usual!r}, but {other!r} fits too: {cells[first]!r} is taken as "
        f"{read[usual][first]:.10g}; with decimal={other!r} in FORMAT it is "
        f"{read[other][first]:.10g}"
    )


def with_its_decimal_sign(table: TextTable, numbers: Sequence[str]) -> TextTable:
    """A new table with the other decimal sign in its format, if more of its cells need that one.

    Args:
        table: The file as text, with the decimal sign of the table that was learned from.
        numbers: Its columns of numbers.

    Returns:
        The table.

    Warns:
        TableWarning: Some cells are numbers with the other decimal sign only.
    """
    usual = table.format.decimal
    other = OTHER_SIGN[usual]
    against = _cells_told_by(table, numbers, other)
    if not against:
        return table
    changes = len(against) > len(_cells_told_by(table, numbers, usual))
    done = (
        f"all numbers of this file are read with {other!r}{_other_meaning(table, numbers)}"
        if changes
        else f"other cells have {usual!r}, so these are taken as missing"
    )
    more = len(against) - SHOWN
    warnings.warn(
        f"{shown(table.path)}: the decimal sign is {usual!r} by FORMAT, but {other!r} in "
        f"{'; '.join(against[:SHOWN])}{f'; and {more} more' if more > 0 else ''}: {done}",
        TableWarning,
        stacklevel=3,
    )
    return replace(table, format=replace(table.format, decimal=other)) if changes else table


def _other_meaning(table: TextTable, names: Sequence[str]) -> str:
    """A number that is another one with the other decimal sign."""
    usual = table.format.decimal
    for name in names:
        read = with_both_signs(table.cells[name])
        for row in np.flatnonzero(differ(read))[:1]:
            values = read.iloc[row]
            return (
                f", so {table.cells[name].iloc[row]!r} in line {table.lines[row]} is "
                f"{values[OTHER_SIGN[usual]]:.10g}, not {values[usual]:.10g}"
            )
    return ""


def _cells_told_by(table: TextTable, names: Sequence[str], sign: str) -> list[str]:
    """Line, column and content of cells that are numbers with this decimal sign only."""
    found = [
        (int(table.lines[row]), name, str(table.cells[name].iloc[row])[:40])
        for name in names
        for row in np.flatnonzero(told_by(with_both_signs(table.cells[name]), sign))
    ]
    return [f"line {line}, column {name!r}: {cell!r}" for line, name, cell in sorted(found)]
