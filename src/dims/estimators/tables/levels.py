"""Levels that no training row has: the answer averages over those that were learned from.

The network cannot know what a new level does. That it is like the levels it has seen, as often as
each was seen, is the least that can be said, and so the interval covers their differences. In
regression it may lie between or beyond them: each level stands for its surroundings.
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
from scipy.special import stdtrit
from sklearn.pipeline import Pipeline
from torch import Tensor

from dims.estimators.tables.reading import likely_spelling
from dims.estimators.tables.typed import SHOWN_CELLS, Table
from dims.prediction.predictive import ClassificationPredictive, Predictive, RegressionPredictive
from dims.sampling.draws import Draws

__all__ = ["Part", "parts", "unlearned", "unlearned_notes"]

COPIES = 20  # of a row, each with the levels of another training row
ROWS_AT_ONCE = 500  # that are copied
FEWEST_LEVELS = 3  # whose spread is taken as it is; Student's interval of two is useless
NORMAL = 1.96  # standard deviations to each side hold 95 % of a normal distribution


class Part(NamedTuple):
    """Some rows of a table, their features, and an estimator to ask about them."""

    rows: np.ndarray
    features: np.ndarray
    estimator: Any


def parts(model: Pipeline, estimator: Any, known: Table | None, table: Table) -> Iterator[Part]:
    """All rows of a table as an estimator can be asked about them.

    A row with levels that were not learned from stands there `COPIES` times, with the levels of
    training rows evenly chosen in their order; its estimator averages over them.

    Args:
        model: A fitted pipeline, for its preparation.
        estimator: Of the pipeline, or its network alone.
        known: The rows that it has learned from; None: unknown levels count as rare ones.
        table: The rows to be asked about.

    Yields:
        Rows whose levels are all known, then others; `features` has more lines than `rows` there.
    """
    prepare, every = model[:-1], np.arange(len(table))
    strange = np.zeros((len(table), 0), dtype=bool)
    if known is not None:
        strange = unlearned(known, table).to_numpy()
    plain = every[~strange.any(axis=1)]
    if len(plain):
        yield Part(plain, prepare.transform(table.inputs.iloc[plain]), estimator)
    if known is None or len(plain) == len(table):
        return
    for pattern in np.unique(strange[strange.any(axis=1)], axis=0):
        rows = every[(strange == pattern).all(axis=1)]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            copied, levels = _with_known_levels(known, table.inputs.iloc[some], pattern)
            yield Part(some, prepare.transform(copied), _averaging(estimator, levels))


def unlearned(known: Table, table: Table) -> pd.DataFrame:
    """Which cells hold a level that no training row has; a missing one is a level too."""
    found = {}
    for name, seen in known.inputs.items():
        cells = table.inputs[name]
        strange = pd.Series(False, cells.index)
        if not pd.api.types.is_numeric_dtype(seen):
            strange = cells.notna() & ~cells.isin(set(seen.dropna()))
            strange |= cells.isna() & seen.notna().all()
        found[name] = strange
    return pd.DataFrame(found)


def unlearned_notes(known: Table, table: Table) -> list[str]:
    """Such cells by line, column and content; missing ones are named elsewhere."""
    notes = []
    for name, strange in unlearned(known, table).items():
        cells = table.inputs[name]
        places = np.flatnonzero(strange & cells.notna())
        for place in places[:SHOWN_CELLS]:
            cell = str(cells.iloc[place])
            meant = likely_spelling(cell, known.inputs[name].dropna().unique())
            guess = f"; did you mean {meant[:40]!r}?" if meant else ""
            notes.append(
                f"line {table.lines[place]}, column {name!r}: {cell[:40]!r} was not in the rows "
                f"that were learned from; its prediction averages over those that were{guess}"
            )
        if len(places) > SHOWN_CELLS:
            notes.append(f"column {name!r}: {len(places) - SHOWN_CELLS} more such cells")
    return notes


def _with_known_levels(
    known: Table, rows: pd.DataFrame, pattern: np.ndarray
) -> tuple[pd.DataFrame, int]:
    """Copies of rows, one after the other, with levels that training rows have together, and how
    many of these differ."""
    names = rows.columns[pattern]
    levels = known.inputs[names].reset_index(drop=True)
    # Sorted, so that evenly chosen rows have each level about as often as all rows do.
    order = levels.astype(str).sort_values(list(names), kind="stable").index
    places = ((np.arange(COPIES) + 0.5) / COPIES * len(levels)).astype(int)
    chosen = levels.loc[order].iloc[places]
    copied = rows.iloc[np.repeat(np.arange(len(rows)), COPIES)].reset_index(drop=True)
    for name in names:
        # As objects: pandas would make a string column of it, with NaN in place of None.
        cells = np.tile(chosen[name].to_numpy(object), len(rows))
        copied[name] = pd.Series(cells, dtype=object)
    return copied, len(chosen.drop_duplicates())


def _averaging(estimator: Any, levels: int) -> Any:
    """The same estimator, which takes `COPIES` lines of features as one row."""
    made = copy.copy(estimator)
    made.draws_ = _OverCopies(estimator.draws_, levels)
    return made


class _OverCopies:
    """Draws whose predictive is the average over copies of a row."""

    def __init__(self, draws: Draws, levels: int) -> None:
        self.draws, self.levels = draws, levels

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
            # Of each draw by its own differences between levels.
            width = _width(self.levels) * apart.std(1, correction=0, keepdim=True)
            noise = noise.hypot(width.expand(apart.shape).flatten(0, 1))
            return replace(made, outputs=outputs, noise_std=noise, weights=weights)
        assert isinstance(made, ClassificationPredictive)
        log_p = _as_draws(made.log_probabilities)
        return replace(made, log_probabilities=log_p, weights=weights)


def _width(levels: int) -> float:
    """Of the surroundings of a level, in standard deviations of the levels.

    With it a mixture of n levels is as wide as Student's interval for one more level, which is
    t·√(1 + 1/n) standard deviations to each side.
    """
    n = max(levels, FEWEST_LEVELS)
    reach = float(stdtrit(n - 1, 0.975)) * math.sqrt(1 + 1 / n) / NORMAL
    return math.sqrt(reach**2 - 1)


def _as_draws(values: Tensor) -> Tensor:
    """(S, N·K, C) to (S·K, N, C)."""
    draws, lines, outputs = values.shape
    apart = values.reshape(draws, lines // COPIES, COPIES, outputs)
    return apart.transpose(1, 2).reshape(draws * COPIES, lines // COPIES, outputs)
