"""Predictions for the rows of another table: its file, notes, and scores where it has targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from dims.estimators import DimsRegressor
from dims.estimators.tables.cells import common_unit, parse_numbers
from dims.estimators.tables.evaluation import all_scores, score_lines
from dims.estimators.tables.formats import Format
from dims.estimators.tables.oddities import oddities, warn_beyond, why_rows_have_notes
from dims.estimators.tables.predictions import SPREAD, answering, predictions
from dims.estimators.tables.preparation import filled
from dims.estimators.tables.reading import write
from dims.estimators.tables.typed import Table
from dims.estimators.tables.unlearned import unlearned, unlearned_notes

__all__ = ["predict_file"]


def predict_file(
    model: Pipeline,
    table: Table,
    path: str | Path,
    target: str,
    known: Table | None = None,
    answer: str = "draws",
) -> Path:
    """Write predictions for the rows of a table beside its file; print notes on its rows.

    Where the table has targets, their rows are scored.

    Args:
        model: A fitted pipeline.
        table: What `read_inputs` made of the file.
        path: The file; predictions of new.csv go to new_predicted.csv.
        target: Name of what is predicted.
        known: The rows that the model has learned from; with them, rows that are unlike them get a
            note, and levels and gaps that are not among them an average over the values that are.
        answer: "draws", or "network" for that of the trained network alone.

    Returns:
        The file that was written.

    Warns:
        TableWarning: Numbers lie far beyond the training rows, or most of a column outside of them.
    """
    estimator = answering(model, answer)
    strange = unlearned(model[0], known, table)
    said = [*table.notes, *filled(model[0], table.inputs.isna() & ~strange)]
    said += unlearned_notes(strange, known, table)
    made = predictions(model, known, table, target, estimator)
    if known is not None:
        said.append(why_rows_have_notes(oddities(strange, known, table), len(table)))
        warn_beyond(known, table)
    if answer == "network":
        made = made.drop(columns=SPREAD)
        said.append('the predictions are those of the network alone (ANSWER = "network")')
    for note in filter(None, said):
        print(f"note: {note}")
    if known is not None and target in table.text:
        print(_scored(model, known, table, target, answer))
    written = Path(path).with_name(Path(path).stem + "_predicted.csv")
    write(made, written, _format_to_write(table, known))
    return written


def _format_to_write(table: Table, known: Table | None) -> Format:
    """That of the table that was learned from, which its owner's spreadsheet reads; characters as
    in the new table, which may have others."""
    return table.format if known is None else replace(known.format, encoding=table.format.encoding)


def _scored(model: Pipeline, known: Table, table: Table, target: str, answer: str) -> str:
    """Scores of the rows whose target can be read, as those of held-out rows."""
    cells = table.text[target]
    regression = isinstance(model[-1], DimsRegressor)
    truth = cells
    if regression:
        truth = parse_numbers(cells, table.format.decimal, common_unit(cells))
    there = truth.notna().to_numpy()
    if not there.any():
        return f"note: column {target!r} has no value that can be read; nothing is scored"
    rows = replace(table, target=truth.to_numpy()).rows(there)
    scores = all_scores(model, known, rows, answer)
    head = f"\n{there.sum()} of these {len(table)} rows have {target!r}:"
    lines = [head, *score_lines(scores, regression)]
    again = int(np.isin(_digests(rows), _digests(known)).sum())
    if again:
        lines.append(
            f"note: {again} of these rows are also among those that were learned from, so these "
            "scores flatter"
        )
    return "\n".join(lines)


def _digests(table: Table) -> np.ndarray:
    """Equal where inputs and target of two rows are."""
    frame = table.inputs.assign(**{"": table.target})
    return pd.util.hash_pandas_object(frame, index=False).to_numpy()
