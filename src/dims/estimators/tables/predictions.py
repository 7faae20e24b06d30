"""Predictions as a table to save: what is predicted, how surely, and what is odd about a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.pipeline import Pipeline

from dims.estimators import DimsRegressor
from dims.estimators.tables.preparation import filled, unknown_levels
from dims.estimators.tables.reading import write
from dims.estimators.tables.typed import Table

__all__ = ["LEVEL", "predict_file", "predictions"]

LEVEL = 0.95
DIGITS = 6  # that are written; more would promise more than there is
MOST_CLASSES = 20  # that have a column each


def predict_file(
    model: Pipeline, table: Table, path: str | Path, target: str, known: Table | None = None
) -> Path:
    """Write predictions for the rows of a table beside its file.

    Args:
        model: A fitted pipeline.
        table: What `read_inputs` made of the file.
        path: The file; predictions of new.csv go to new_predicted.csv.
        target: Name of what is predicted.
        known: The rows that the model has learned from; with them, rows that are unlike them get a
            note.

    Returns:
        The file that was written.
    """
    odd = row_notes(known, table) if known is not None else []
    marked = sum(map(bool, odd))
    counted = [f"{marked} of {len(table)} rows have a note in the file"] if marked else []
    said = [*table.notes, *filled(model[0], table), *unknown_levels(model[0], table), *counted]
    for note in said:
        print(f"note: {note}")
    made = predictions(model[-1], model[:-1].transform(table.inputs))
    made = made.rename(columns={"prediction": f"predicted {target}"})
    if marked:
        made["note"] = odd
    written = Path(path).with_name(Path(path).stem + "_predicted.csv")
    lines = pd.DataFrame({"line": table.lines})
    text = table.text.reset_index(drop=True)
    write(pd.concat([lines, text, made], axis=1), written, table.format)
    return written


def predictions(model: Any, features: np.ndarray) -> pd.DataFrame:
    """Of a fitted estimator: mean and interval, or the probabilities of all classes."""
    spread = np.sqrt(model.draws_.predict(torch.tensor(features)).epistemic.numpy())
    if isinstance(model, DimsRegressor):
        mean, std = model.predict(features, return_std=True)
        low, high = model.interval(features, LEVEL)
        ends = {f"lower {LEVEL:.0%}": low, f"upper {LEVEL:.0%}": high}
        columns = {"prediction": mean, **ends, "sd": std}
        return _rounded(columns | {"spread of the draws": spread[:, 0] * model.target_scale_})
    chances = model.predict_proba(features)
    guess = chances.argmax(axis=1)
    shown = enumerate(model.classes_[:MOST_CLASSES])
    columns = {"prediction": model.classes_[guess]}
    columns |= {f"probability {name}": chances[:, place] for place, name in shown}
    return _rounded(columns | {"spread of the draws": spread[np.arange(len(guess)), guess]})


def _rounded(columns: dict[str, Any]) -> pd.DataFrame:
    """Numbers with few digits, whatever their size."""
    made = pd.DataFrame(columns)
    for name in made.select_dtypes("float"):
        made[name] = [float(f"{value:.{DIGITS}g}") for value in made[name]]
    return made


def row_notes(known: Table, table: Table) -> list[str]:
    """For each row, which cells are missing and which numbers lie beyond all training rows.

    The network has to guess there, and its interval may be too narrow.
    """
    notes: list[list[str]] = [[] for _ in range(len(table))]
    for name, seen in known.inputs.items():
        cells = table.inputs[name]
        for row in np.flatnonzero(cells.isna().to_numpy()):
            notes[row].append(f"{name} is missing")
        if pd.api.types.is_numeric_dtype(seen):
            low, high = seen.min(), seen.max()
            for sign, beyond in (("below", cells < low), ("above", cells > high)):
                end = f"{low if sign == 'below' else high:.{DIGITS}g}"
                for row in np.flatnonzero(beyond.to_numpy()):
                    notes[row].append(f"{name} is {sign} all training rows ({end})")
    return ["; ".join(each) for each in notes]
