"""Values that were not learned from, an unknown level or a gap in a column that hardly any training
row misses: the answer averages over the values that were learned from.

The network cannot know what such a value does. That it is like the values it has seen, as often as
each was seen, is the least that can be said, and so the interval covers their differences. In
regression it may lie between or beyond them: each value stands for its surroundings.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from pandas.api.types import is_numeric_dtype
from scipy.special import stdtrit
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from torch import Tensor

from dims.estimators.tables.gaps import few_gaps
from dims.estimators.tables.naming import lines_named, none_of
from dims.estimators.tables.preparation import NOTHING, fills_with_a_number, learned_levels
from dims.estimators.tables.spelling import did_you_mean
from dims.estimators.tables.typed import Table
from dims.prediction.predictive import ClassificationPredictive, Predictive, RegressionPredictive
from dims.sampling.draws import Draws

__all__ = ["Part", "parts", "unlearned", "unlearned_notes"]

COPIES = 20  # of a row, each with the values of another training row
ROWS_AT_ONCE = 500  # that are copied
FEWEST_VALUES = 3  # whose spread is taken as it is; Student's interval of two is useless
NORMAL = 1.96  # standard deviations to each side hold 95 % of a normal distribution


class Part(NamedTuple):
    """Some rows of a table, their features, and an estimator to ask about them."""

    rows: np.ndarray
    features: np.ndarray
    estimator: Any


def parts(model: Pipeline, estimator: Any, known: Table | None, table: Table) -> Iterator[Part]:
    """All rows of a table as an estimator can be asked about them.

    A row with values that were not learned from stands there `COPIES` times, with the values of
    training rows evenly chosen in their order; its estimator averages over them.

    Args:
        model: A fitted pipeline, for its preparation.
        estimator: Of the pipeline, or its network alone.
        known: The rows that it has learned from; None: unknown levels count as rare ones, and all
            gaps are filled.
        table: The rows to be asked about.

    Yields:
        Rows whose values are all known, then others; `features` has more lines than `rows` there.
    """
    prepare, every = model[:-1], np.arange(len(table))
    if known is None:
        yield Part(every, prepare.transform(table.inputs), estimator)
        return
    strange = unlearned(model[0], known, table)
    marks = strange.to_numpy()
    plain = every[~marks.any(axis=1)]
    if len(plain):
        yield Part(plain, prepare.transform(table.inputs.iloc[plain]), estimator)
    for pattern in np.unique(marks[marks.any(axis=1)], axis=0):
        rows = every[(marks == pattern).all(axis=1)]
        values = _chosen(known, list(strange.columns[pattern]))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            copied = _with_values(table.inputs.iloc[some], values)
            differ = len(values.drop_duplicates())
            yield Part(some, prepare.transform(copied), _averaging(estimator, differ))


def unlearned(fitted: ColumnTransformer, known: Table | None, table: Table) -> pd.DataFrame:
    """Which cells hold what no training row has, a level, or what too few have, nothing.

    Args:
        fitted: The preparation, fitted to the training rows. Where it fills gaps with a number of
            your own, that is what a missing number means.
        known: The training rows; without them, gaps in columns that hardly any of them misses are
            not found.
        table: Any rows.

    Returns:
        True or False for each cell of the inputs.
    """
    levels, filled = learned_levels(fitted), fills_with_a_number(fitted)
    found = {}
    for name, cells in table.inputs.items():
        few = known is not None and few_gaps(known.inputs[name])
        if name in levels:
            gaps = cells.isna() & few
            found[name] = gaps | ~cells.fillna(NOTHING).isin(levels[name])
        else:
            found[name] = cells.isna() & (few and not filled)
    return pd.DataFrame(found)


def unlearned_notes(strange: pd.DataFrame, known: Table | None, table: Table) -> list[str]:
    """Such cells by line, column and content, and what is done about them."""
    notes = []
    for name, marked in strange.items():
        cells, lines = table.inputs[name][marked.to_numpy()], table.lines[marked.to_numpy()]
        for some in (cells.notna().to_numpy(), cells.isna().to_numpy()):
            if some.any():
                said = _said_of(cells[some], name, known)
                notes.append(f"{lines_named(lines[some])}, column {name!r}: {said}")
    return notes


def _said_of(cells: pd.Series, name: str, known: Table | None) -> str:
    averages = "its prediction averages over what they have"
    done = "taken as a rare level" if known is None else averages
    if cells.isna().all():
        gaps = 0 if known is None else int(known.inputs[name].isna().sum())
        count = f"only {gaps}" if gaps else "none"
        return f"missing, as in {count} of the rows that were learned from; {done}"
    guess = "" if known is None else did_you_mean(cells.unique(), known.inputs[name].dropna())
    return f"{none_of(cells, 'was')} in the rows that were learned from; {done}{guess}"


def _chosen(known: Table, names: list[str]) -> pd.DataFrame:
    """`COPIES` training rows of some columns, evenly chosen in their order, so that each level is
    there about as often as in all rows, and numbers are quantiles. Rows with a gap are not chosen
    where these are few."""
    names = sorted(names, key=lambda name: is_numeric_dtype(known.inputs[name]))
    values = known.inputs[names].reset_index(drop=True)
    full = values.dropna(subset=[name for name in names if few_gaps(values[name])])
    values = values if full.empty else full
    ordered = values.sort_values(names, kind="stable", key=_sortable)
    places = ((np.arange(COPIES) + 0.5) / COPIES * len(values)).astype(int)
    return ordered.iloc[places]


def _sortable(cells: pd.Series) -> pd.Series:
    return cells if is_numeric_dtype(cells) else cells.astype(str)


def _with_values(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Copies of rows, one after the other, each with other values in some columns."""
    copied = rows.iloc[np.repeat(np.arange(len(rows)), len(values))].reset_index(drop=True)
    for name, cells in values.items():
        # Of the same type: pandas would make a string column of objects, with NaN in place of None.
        copied[name] = pd.Series(np.tile(cells.to_numpy(), len(rows)), dtype=cells.dtype)
    return copied


def _averaging(estimator: Any, values: int) -> Any:
    """The same estimator, which takes `COPIES` lines of features as one row."""
    made = copy.copy(estimator)
    made.draws_ = _OverCopies(estimator.draws_, values)
    return made


class _OverCopies:
    """Draws whose predictive is the average over copies of a row."""

    def __init__(self, draws: Draws, values: int) -> None:
        self.draws, self.values = draws, values

    def predict(self, inputs: Tensor) -> Predictive:
        made = self.draws.predict(inputs)
        count = len(made.samples)
        equal = torch.full((count,), 1 / count, dtype=torch.float64)
        weights = (equal if made.weights is None else made.weights) / COPIES
        weights = weights.repeat_interleave(COPIES)
        if isinstance(made, RegressionPredictive):
            noise = torch.as_tensor(made.noise_std).to(made.outputs).expand(made.outputs.shape)
            outputs, noise = _as_draws(made.outputs), _as_draws(noise)
            apart = outputs.unflatten(0, (count, COPIES))
            # Of each draw by its own differences between values.
            width = _width(self.values) * apart.std(1, correction=0, keepdim=True)
            noise = noise.hypot(width.expand(apart.shape).flatten(0, 1))
            return replace(made, outputs=outputs, noise_std=noise, weights=weights)
        assert isinstance(made, ClassificationPredictive)
        log_p = _as_draws(made.log_probabilities)
        return replace(made, log_probabilities=log_p, weights=weights)


def _width(values: int) -> float:
    """Of the surroundings of a value, in standard deviations that the values cause.

    With it a mixture of n values is as wide as Student's interval for one more value, which is
    t·√(1 + 1/n) standard deviations to each side.
    """
    n = max(values, FEWEST_VALUES)
    reach = float(stdtrit(n - 1, 0.975)) * math.sqrt(1 + 1 / n) / NORMAL
    return math.sqrt(reach**2 - 1)


def _as_draws(values: Tensor) -> Tensor:
    """(S, N·K, C) to (S·K, N, C)."""
    draws, lines, outputs = values.shape
    apart = values.reshape(draws, lines // COPIES, COPIES, outputs)
    return apart.transpose(1, 2).reshape(draws * COPIES, lines // COPIES, outputs)
