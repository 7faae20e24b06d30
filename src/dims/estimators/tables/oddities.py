"""Rows that are unlike those that were learned from: the network has to guess there."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dims.errors import TableWarning
from dims.estimators.tables.naming import counted, lines_named
from dims.estimators.tables.preparation import hardly_seen
from dims.estimators.tables.typed import Table

__all__ = ["Odd", "oddities", "row_notes", "warn_beyond", "why_rows_have_notes"]

FAR = 10  # times the range of the training rows beyond its end: hardly a value that is meant
MOST = 0.5  # of the rows: another unit or decimal sign is likelier than so many unusual rows
SHOWN_REASONS = 3
DIGITS = 6


class Odd(NamedTuple):
    """Rows of a table that are odd in the same way.

    Attributes:
        reason: What is odd about a column, in a few words.
        rows: Their places.
        notes: What the note of each says.
    """

    reason: str
    rows: np.ndarray
    notes: Sequence[str]


def oddities(strange: pd.DataFrame, known: Table, table: Table) -> list[Odd]:
    """Cells that are missing, cannot be read, have a level or value that was not or hardly learned
    from, or lie beyond all training rows.

    Args:
        strange: What `unlearned` says of the rows.
        known: The rows that were learned from.
        table: The rows to be asked about.

    Returns:
        At least one row for each.
    """
    found: list[Odd] = []
    for name in known.inputs:
        cells, text = table.inputs[name], table.text[name]
        gone = cells.isna()
        found.append(_same(f"{name} is missing", gone & text.isna()))
        found.append(_named(name, text, "could not be read", gone & text.notna()))
        found.append(_named(name, cells, "was not learned from", strange[name] & ~gone))
        rare = hardly_seen(known.inputs[name])
        if rare is not None:
            few = f"was hardly learned from ({counted(rare[1], 'training row')})"
            found.append(_named(name, text, few, cells == rare[0]))
        if pd.api.types.is_numeric_dtype(known.inputs[name]):
            found += _beyond(name, known.inputs[name], cells)
    return [odd for odd in found if len(odd.rows)]


def row_notes(found: Sequence[Odd], rows: int) -> list[str]:
    """One note for each row, "" where nothing is odd."""
    notes: list[list[str]] = [[] for _ in range(rows)]
    for odd in found:
        for row, note in zip(odd.rows, odd.notes, strict=True):
            notes[row].append(note)
    return ["; ".join(each) for each in notes]


def why_rows_have_notes(found: Sequence[Odd], rows: int) -> str:
    """How many rows have a note, and the most frequent reasons; "" where none has one."""
    if not found:
        return ""
    marked = len(set(np.concatenate([odd.rows for odd in found])))
    often = sorted(found, key=lambda odd: -len(odd.rows))[:SHOWN_REASONS]
    reasons = "; ".join(f"{odd.reason} in {len(odd.rows)}" for odd in often)
    more = len(found) - len(often)
    others = f"; and {more} more reason{'s' * (more > 1)}" if more else ""
    have = "has" if marked == 1 else "have"
    return f"{marked} of {rows} rows {have} a note in the file: {reasons}{others}"


def warn_beyond(known: Table, table: Table) -> None:
    """Warn of numbers that are hardly meant: far beyond the training rows, or most of a column
    outside of them."""
    for name, seen in known.inputs.items():
        if not pd.api.types.is_numeric_dtype(seen):
            continue
        cells, text, span = table.inputs[name], table.text[name], _span(seen)
        far = np.flatnonzero(_far(seen, cells))
        if len(far):
            warnings.warn(
                f"{lines_named(table.lines[far])}, column {name!r}: {str(text.iloc[far[0]])[:40]!r}"
                f" is far beyond all training rows ({span}); answers there are not to be trusted: "
                "correct such a cell, or leave it empty",
                TableWarning,
                stacklevel=3,
            )
        outside = np.flatnonzero((cells < seen.min()) | (cells > seen.max()))
        if len(outside) > MOST * cells.notna().sum():
            are = "is" if len(outside) == 1 else "are"
            warnings.warn(
                f"column {name!r}: {len(outside)} of {len(cells)} rows {are} outside of all "
                f"training rows ({span}), as {str(text.iloc[outside[0]])[:40]!r} in line "
                f"{table.lines[outside[0]]}; answers there are guesses: have both tables the same "
                "unit and decimal sign?",
                TableWarning,
                stacklevel=3,
            )


def _same(reason: str, marked: pd.Series) -> Odd:
    rows = np.flatnonzero(marked.to_numpy())
    return Odd(reason, rows, [reason] * len(rows))


def _named(name: str, cells: pd.Series, reason: str, marked: pd.Series) -> Odd:
    """Rows whose notes name their cells."""
    rows = np.flatnonzero(marked.to_numpy())
    notes = [f"{name} {str(cells.iloc[row])[:40]!r} {reason}" for row in rows]
    return Odd(f"{name} {reason}", rows, notes)


def _beyond(name: str, seen: pd.Series, cells: pd.Series) -> list[Odd]:
    """Numbers below and above all training rows."""
    far = _far(seen, cells)
    sides = [("below", seen.min(), cells < seen.min()), ("above", seen.max(), cells > seen.max())]
    return [
        odd
        for side, end, beyond in sides
        for odd in (
            _same(f"{name} is {side} all training rows ({_short(end)})", beyond & ~far),
            _same(
                f"{name} is far {side} all training rows ({_short(end)}), do not trust this answer",
                beyond & far,
            ),
        )
    ]


def _far(seen: pd.Series, cells: pd.Series) -> pd.Series:
    low, high = seen.min(), seen.max()
    reach = FAR * (high - low)
    return ((cells < low - reach) | (cells > high + reach)) & (reach > 0)


def _span(seen: pd.Series) -> str:
    return f"{_short(seen.min())} to {_short(seen.max())}"


def _short(value: float) -> str:
    return f"{value:.{DIGITS}g}"
