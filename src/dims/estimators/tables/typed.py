"""From text to numbers, dates and categories, with every cell that does not fit named."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from dims.errors import TableError, TableWarning
from dims.estimators.tables.cells import common_unit, parse_numbers, split_unit
from dims.estimators.tables.columns import NUMBER
from dims.estimators.tables.decimals import OTHER_SIGN, has_other_sign
from dims.estimators.tables.formats import Format
from dims.estimators.tables.inputs import (
    note_bad_cells,
    number_columns,
    typed_inputs,
    used,
)
from dims.estimators.tables.naming import counted
from dims.estimators.tables.reading import (
    SEPARATE,
    TextTable,
    read_text,
    shown,
    some_names,
)
from dims.estimators.tables.repeated import note_on_copies, repeated_rows
from dims.estimators.tables.signs import with_its_decimal_sign
from dims.estimators.tables.spelling import did_you_mean
from dims.model.copies import parts_of
from dims.prediction.showing import Shown

__all__ = ["Table", "read", "read_inputs"]

FEWEST_ROWS = 10


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

        Rows that are copies of each other stay together.

        Args:
            fraction: Part of the rows that is held out.
            seed: Of the choice.

        Returns:
            The rows to learn from, which keep the notes, and the others.

        Raises:
            TableError: One of the two would be empty.
        """
        held = np.zeros(len(self), dtype=bool)
        order = torch.from_numpy(np.random.RandomState(seed).permutation(len(self)))
        count = round(fraction * len(self))
        held[parts_of(order, [count], repeated_rows(self.inputs, self.target))[0]] = True
        if self.target.dtype == object:
            for label in set(self.target) - set(self.target[~held]):
                held[np.flatnonzero(self.target == label)[0]] = False
        if held.all() or not held.any():
            raise TableError(
                f"HELD_OUT: {fraction} of {len(self)} rows leaves none on one side; take 0.2. "
                "Before other tables are predicted, LEARN_FROM_ALL = True learns from all rows"
            )
        return replace(self.rows(~held), notes=self.notes), self.rows(held)

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

    def rows(self, chosen: np.ndarray) -> Table:
        """Some of the rows, without the notes.

        Args:
            chosen: Their places, or whether each is chosen.
        """
        places = np.arange(len(self))[chosen]
        return Table(
            self.inputs.iloc[places],
            self.target[places],
            self.lines[places],
            self.text.iloc[places],
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
        columns: "number", "number UNIT", "category", "date FORMAT" or "leave out" for each input.
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
    _check_names(text, [*used(columns), target])
    notes: list[str] = []
    cells = text.cells[target]
    known = cells.notna().to_numpy()
    answers = cells.to_numpy(object)
    if task == "regression":
        unit = common_unit(cells)
        numbers = parse_numbers(cells, text.format.decimal, unit)
        bad = numbers.isna().to_numpy() & known
        note_bad_cells(text, target, bad, f"{NUMBER} {unit}".strip(), "left out", notes)
        known, answers = numbers.notna().to_numpy(), numbers.to_numpy()
    if known.sum() < FEWEST_ROWS:
        raise TableError(
            f"{counted(known.sum(), 'row')} of {shown(text.path)} have a {target!r} that can be "
            f"used; at least {FEWEST_ROWS} are needed{_why_none(text, target, ~known)}"
        )
    if not known.all():
        notes.append(f"{counted((~known).sum(), 'row')} without {target!r} left out")
    kinds = len(set(answers[known]))
    if kinds == 1 or (task == "classification" and kinds > 0.5 * known.sum()):
        hint = '; set TASK = "regression" for numbers' if kinds > 1 else ""
        raise TableError(f"{target!r} has {kinds} different values in {known.sum()} rows{hint}")
    inputs, wrong = typed_inputs(text, columns, notes, known)
    if wrong:
        raise TableError(f"COLUMNS: {wrong[0]}")
    cells = text.cells.drop(columns=target)
    kept = (inputs[known], answers[known], text.lines[known], cells[known])
    copies = note_on_copies(*kept[:3])
    notes += [copies] if copies else []
    return Table(*kept, text.format, notes, target)


def read_inputs(
    path: str | Path, columns: Mapping[str, str], format: Format | None = None
) -> Table:
    """Read a table whose rows are to be predicted; a target is not needed.

    Args:
        path: A CSV file.
        columns: The kinds of the columns that were learned from.
        format: How the table that was learned from is written. Its decimal sign is taken, unless
            more cells are numbers with the other one only; separator and encoding may differ. None
            finds out all three.

    Returns:
        All its rows.

    Raises:
        TableError: A column is missing, or there are no rows.

    Warns:
        TableWarning: Most of a column is of another kind than the one that was learned from, or
            cells have another decimal sign.
    """
    text = read_text(path, fewest=1, usual=format)
    _check_names(text, used(columns))
    if format is not None:
        text = with_its_decimal_sign(text, number_columns(columns))
    if not len(text.cells):
        raise TableError(
            f"{shown(text.path)} has names of columns, and no rows; write a line for each row"
        )
    notes: list[str] = []
    inputs, wrong = typed_inputs(text, columns, notes, np.ones(len(text.cells), dtype=bool))
    for said in wrong:
        warnings.warn(f"{said}; they count as missing", TableWarning, stacklevel=2)
    return Table(inputs, np.empty(0), text.lines, text.cells, text.format, notes)


def _why_none(text: TextTable, target: str, unused: np.ndarray) -> str:
    """A target that is not a number, and what it may be; "" where all are empty."""
    cells = text.cells[target][unused].dropna()
    if cells.empty:
        return ""
    first, decimal = cells.iloc[0], text.format.decimal
    found = f"; line {text.lines[cells.index[0]]} has {first[:40]!r}, which is not a number"
    if has_other_sign(cells[:1], decimal, split_unit(first)[1]):
        return f"{found} with decimal={decimal!r} in FORMAT: is it {OTHER_SIGN[decimal]!r}?"
    return f'{found}; set TASK = "classification" for classes'


def _check_names(text: TextTable, names: list[str]) -> None:
    absent = [name for name in names if name not in text.cells]
    if absent:
        there, listed = ", ".join(map(str, text.cells.columns[:20])), ", ".join(map(repr, absent))
        columns = "columns" if len(absent) > 1 else "column"
        found = f"{shown(text.path)} has no {columns} {listed[:200]}; there"
        if len(text.cells.columns) == 1:
            raise TableError(f"{found} is one column only, {there[:60]!r}; {SEPARATE}")
        raise TableError(f"{found} are {there}{did_you_mean(absent, text.cells.columns)}")
