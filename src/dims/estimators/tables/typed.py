"""From text to numbers, dates and categories, with every cell that does not fit named."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dims.errors import TableError, TableWarning
from dims.estimators.tables.columns import BAD_CELLS, CATEGORY, DATE, LEFT_OUT, NUMBER, parse_dates
from dims.estimators.tables.reading import (
    SEPARATE,
    Format,
    TextTable,
    did_you_mean,
    parse_numbers,
    read_text,
    shown,
    some_names,
)
from dims.prediction.showing import Shown

__all__ = ["Table", "read", "read_inputs"]

FEWEST_ROWS = 10
SHOWN_CELLS = 5


@dataclass(frozen=True, eq=False, repr=False)
class Table(Shown):
    """Rows of a file as numbers and categories.

    Attributes:
        inputs: Numbers, years and text of the columns that are used; NaN or None is missing.
        target: What is to be predicted, numbers or text; empty where it is not known.
        lines: The line of each row in the file.
        text: All columns but the target as they are in the file, identifiers included.
        format: How the file is written.
        notes: What was found that a person should know, one sentence each.
        target_name: What the column of the target is called.
    """

    inputs: pd.DataFrame
    target: np.ndarray
    lines: np.ndarray
    text: pd.DataFrame
    format: Format
    notes: list[str] = field(default_factory=list)
    target_name: str = "target"

    def __len__(self) -> int:
        return len(self.inputs)

    def _facts(self) -> Mapping[str, Any]:
        target = "not known"
        if len(self.target):
            numbers = self.target.dtype != object
            target = "numbers" if numbers else f"{len(set(self.target))} classes"
        return {
            "rows": len(self),
            "columns": some_names(self.inputs.columns),
            "target": target,
            "missing_cells": int(self.inputs.isna().sum().sum()),
            "notes": len(self.notes),
        }

    def split(self, fraction: float, seed: int = 0) -> tuple[Table, Table]:
        """Random rows to learn from, and others to evaluate by; every class keeps a row to learn.

        Args:
            fraction: Part of the rows that is held out.
            seed: Of the choice.

        Returns:
            The rows to learn from, which keep the notes, and the others.

        Raises:
            TableError: One of the two would be empty.
        """
        held = np.zeros(len(self), dtype=bool)
        order = np.random.RandomState(seed).permutation(len(self))
        held[order[: round(fraction * len(self))]] = True
        if self.target.dtype == object:
            for label in set(self.target) - set(self.target[~held]):
                held[np.flatnonzero(self.target == label)[0]] = False
        if held.all() or not held.any():
            raise TableError(
                f"HELD_OUT: {fraction} of {len(self)} rows leaves none on one side; take 0.2. "
                "Before other tables are predicted, LEARN_FROM_ALL = True learns from all rows"
            )
        return replace(self._rows(~held), notes=self.notes), self._rows(held)

    def with_rows(self, other: Table) -> Table:
        """Both tables one below the other, in the order of their lines.

        Args:
            other: A table of the same columns, such as the rows that `split` held out.

        Returns:
            All rows.
        """
        order = np.argsort(np.concatenate([self.lines, other.lines]), kind="stable")
        inputs, text = (
            pd.concat(pair).iloc[order]
            for pair in ([self.inputs, other.inputs], [self.text, other.text])
        )
        target, lines = (
            np.concatenate(pair)[order]
            for pair in ([self.target, other.target], [self.lines, other.lines])
        )
        notes = [*self.notes, *other.notes]
        return Table(inputs, target, lines, text, self.format, notes, self.target_name)

    def _rows(self, chosen: np.ndarray) -> Table:
        return Table(
            self.inputs[chosen],
            self.target[chosen],
            self.lines[chosen],
            self.text[chosen],
            self.format,
            target_name=self.target_name,
        )


def read(
    path: str | Path,
    columns: Mapping[str, str],
    target: str,
    task: str,
    format: Format | None = None,
) -> Table:
    """Read a table to learn from.

    Args:
        path: A CSV file.
        columns: "number", "category", "date FORMAT" or "leave out" for each input.
        target: The column to predict.
        task: "regression" or "classification".
        format: How the file is written; None finds out.

    Returns:
        The rows whose target is known.

    Raises:
        TableError: The file is not such a table.
    """
    if task not in ("regression", "classification"):
        raise TableError(f'TASK: must be "regression" or "classification", is {task!r}')
    text = read_text(path, format)
    _check_names(text, [*_used(columns), target])
    notes: list[str] = []
    cells = text.cells[target]
    known = cells.notna().to_numpy()
    answers = cells.to_numpy(object)
    if task == "regression":
        numbers = parse_numbers(cells, text.format.decimal)
        _note_bad_cells(
            text, target, numbers.isna().to_numpy() & known, "number", "left out", notes
        )
        known, answers = numbers.notna().to_numpy(), numbers.to_numpy()
    if known.sum() < FEWEST_ROWS:
        hint = '; set TASK = "classification" for classes' if task == "regression" else ""
        raise TableError(
            f"{known.sum()} rows of {shown(text.path)} have a {target!r} that can be used; at "
            f"least {FEWEST_ROWS} are needed{hint}"
        )
    if not known.all():
        notes.append(f"{(~known).sum()} rows without {target!r} are left out")
    kinds = len(set(answers[known]))
    if kinds == 1 or (task == "classification" and kinds > 0.5 * known.sum()):
        hint = '; set TASK = "regression" for numbers' if kinds > 1 else ""
        raise TableError(f"{target!r} has {kinds} different values in {known.sum()} rows{hint}")
    inputs, wrong = _inputs(text, columns, notes, known)
    if wrong:
        raise TableError(f"COLUMNS: {wrong[0]}")
    cells = text.cells.drop(columns=target)
    kept = (inputs[known], answers[known], text.lines[known], cells[known])
    return Table(*kept, text.format, notes, target)


def read_inputs(path: str | Path, columns: Mapping[str, str]) -> Table:
    """Read a table whose rows are to be predicted; a target is not needed.

    Args:
        path: A CSV file.
        columns: The kinds of the columns that were learned from.

    Returns:
        All its rows.

    Raises:
        TableError: A column is missing, or there are no rows.

    Warns:
        TableWarning: Most of a column is of another kind than the one that was learned from.
    """
    text = read_text(path, fewest=1)
    _check_names(text, _used(columns))
    if not len(text.cells):
        raise TableError(
            f"{shown(text.path)} has names of columns, and no rows; write a line for each row"
        )
    notes: list[str] = []
    inputs, wrong = _inputs(text, columns, notes, np.ones(len(text.cells), dtype=bool))
    for said in wrong:
        warnings.warn(f"{said}; they count as missing", TableWarning, stacklevel=2)
    return Table(inputs, np.empty(0), text.lines, text.cells, text.format, notes)


def _used(columns: Mapping[str, str]) -> list[str]:
    return [name for name, kind in columns.items() if kind != LEFT_OUT]


def _check_names(text: TextTable, names: list[str]) -> None:
    absent = [name for name in names if name not in text.cells]
    if absent:
        there, listed = ", ".join(map(str, text.cells.columns[:20])), ", ".join(map(repr, absent))
        found = f"{shown(text.path)} has no column {listed[:200]}; there"
        if len(text.cells.columns) == 1:
            raise TableError(f"{found} is one column only, {there[:60]!r}; {SEPARATE}")
        raise TableError(f"{found} are {there}{did_you_mean(absent, text.cells.columns)}")


def _inputs(
    text: TextTable, columns: Mapping[str, str], notes: list[str], rows: np.ndarray
) -> tuple[pd.DataFrame, list[str]]:
    """The columns that are used, each as its kind says, and what is said about those of which too
    large a part of these rows is of another kind."""
    made, wrong = {}, []
    for name in _used(columns):
        kind, cells = columns[name], text.cells[name]
        if kind == CATEGORY:
            made[name] = cells.astype("object").where(cells.notna(), None)
            continue
        if kind == NUMBER:
            values = parse_numbers(cells, text.format.decimal)
        elif kind.startswith(f"{DATE} "):
            values = _dates(name, cells, kind.removeprefix(f"{DATE} "))
        else:
            raise TableError(
                f"COLUMNS: {name!r} is {kind!r}; a column is a {NUMBER!r}, a {CATEGORY!r}, a date "
                f"with its form such as 'date %Y-%m-%d', or {LEFT_OUT!r}"
            )
        bad = (values.isna() & cells.notna()).to_numpy()
        made[name] = values
        count, filled = int(bad[rows].sum()), int(cells.notna().to_numpy()[rows].sum())
        if count > BAD_CELLS * filled:
            first = str(cells[rows & bad].iloc[0])[:40]
            wrong.append(
                f"{name!r} is a {kind!r}, but {count} of {filled} cells of {shown(text.path)} that "
                f"are not empty cannot be read so, as {first!r}"
            )
            continue
        _note_bad_cells(text, name, bad, kind, "taken as missing", notes)
    if not made:
        raise TableError("COLUMNS: every column is left out; a network needs one")
    return pd.DataFrame(made), wrong


def _dates(name: str, cells: pd.Series, form: str) -> pd.Series:
    try:
        return parse_dates(cells, form)
    except ValueError as error:
        raise TableError(f"COLUMNS: {name!r} has no form of dates: {error}") from error


def _note_bad_cells(
    text: TextTable, name: str, bad: np.ndarray, wanted: str, done: str, notes: list[str]
) -> None:
    """Line, column and content of cells that are not what they should be."""
    places = np.flatnonzero(bad)
    for place in places[:SHOWN_CELLS]:
        content = str(text.cells[name].iloc[place])[:40]
        notes.append(
            f"line {text.lines[place]}, column {name!r}: {content!r} is not a {wanted}; {done}"
        )
    if len(places) > SHOWN_CELLS:
        notes.append(f"column {name!r}: {len(places)} cells are not a {wanted} in all; {done}")
