"""Predictions as a table to save: what is predicted, how surely, and what is odd about a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.pipeline import Pipeline

from dims.baselines.verdict import LEVEL
from dims.errors import TableError
from dims.estimators import DimsRegressor
from dims.estimators.tables.oddities import oddities, row_notes
from dims.estimators.tables.typed import Table
from dims.estimators.tables.unlearned import Part, parts, unlearned

__all__ = ["SPREAD", "answering", "check_answer", "predictions"]

DIGITS = 6  # that are written; more would promise more than there is
MOST_CLASSES = 20  # that have a column each
ANSWERS = ("draws", "network")
ANSWER, SPREAD = "prediction", "spread of the draws"  # columns


def answering(model: Pipeline, answer: str) -> Any:
    """The estimator of a pipeline that gives the answer: all of it, or its network alone."""
    check_answer(answer)
    return model[-1] if answer == "draws" else model[-1].network_only()


def check_answer(answer: str) -> None:
    """Refuse what is neither "draws" nor "network"."""
    if answer not in ANSWERS:
        raise TableError(f'ANSWER: must be "draws" or "network", is {answer!r}')


def predictions(
    model: Pipeline, known: Table | None, table: Table, target: str, estimator: Any
) -> pd.DataFrame:
    """Line and cells of each row, mean and interval or the probabilities of all classes, a note.

    Args:
        model: A fitted pipeline, for its preparation.
        known: The rows that it has learned from, for the notes and for values not among them.
        table: The rows to be predicted; their target is a column, where it is known.
        target: Name of what is predicted.
        estimator: Of the pipeline, or its network alone.

    Returns:
        A table to be written.
    """
    found = [
        _asked(part).set_axis(part.rows, axis=0) for part in parts(model, estimator, known, table)
    ]
    made = pd.concat(found).sort_index().rename(columns={ANSWER: f"predicted {target}"})
    before = {"line": table.lines} | ({"truth": table.target} if len(table.target) else {})
    cells = table.text.reset_index(drop=True)
    odd = [] if known is None else oddities(unlearned(model[0], known, table), known, table)
    after = {"note": row_notes(odd, len(table))} if odd else {}
    return pd.concat([pd.DataFrame(before), cells, made, pd.DataFrame(after)], axis=1)


def _asked(part: Part) -> pd.DataFrame:
    """What an estimator says about some rows."""
    model, features = part.estimator, part.features
    spread = np.sqrt(model.draws_.predict(torch.tensor(features)).epistemic.numpy())
    if isinstance(model, DimsRegressor):
        mean, std = model.predict(features, return_std=True)
        low, high = model.interval(features, LEVEL)
        ends = {f"lower {LEVEL:.0%}": low, f"upper {LEVEL:.0%}": high}
        columns = {ANSWER: mean, **ends, "sd": std}
        return _rounded(columns | {SPREAD: spread[:, 0] * model.target_scale_})
    chances = model.predict_proba(features)
    guess = chances.argmax(axis=1)
    shown = enumerate(model.classes_[:MOST_CLASSES])
    columns = {ANSWER: model.classes_[guess]}
    columns |= {f"probability {name}": chances[:, place] for place, name in shown}
    return _rounded(columns | {SPREAD: spread[np.arange(len(guess)), guess]})


def _rounded(columns: dict[str, Any]) -> pd.DataFrame:
    """Numbers with few digits, whatever their size."""
    made = pd.DataFrame(columns)
    for name in made.select_dtypes("float"):
        made[name] = [float(f"{value:.{DIGITS}g}") for value in made[name]]
    return made
