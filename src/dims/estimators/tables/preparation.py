"""Columns of a table as the numbers that a network takes."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from dims.estimators.tables.columns import CATEGORY, LEFT_OUT
from dims.estimators.tables.typed import SHOWN_CELLS, Table

__all__ = ["input_names", "preparation", "unknown_levels"]

RARE = 4  # levels in fewer rows than this are grouped
MOST_LEVELS = 20
NOTHING = "(missing)"


def preparation(columns: Mapping[str, str]) -> ColumnTransformer:
    """A scikit-learn transformer for the inputs of a `Table`.

    A missing number becomes the median of its column, and another column says where that was. A
    category becomes one column of 0 and 1 for each level; rare levels share one, levels that were
    not there in `fit` count as rare ones (all 0 where there are none), and "missing" is a level.

    Args:
        columns: The kind of each column; "leave out" leaves it out.

    Returns:
        The transformer, to be used in a pipeline before an estimator.
    """
    used = {name: kind for name, kind in columns.items() if kind != LEFT_OUT}
    categories = [name for name, kind in used.items() if kind == CATEGORY]
    numbers = [name for name in used if name not in categories]
    fill = SimpleImputer(strategy="constant", fill_value=NOTHING, missing_values=None)
    one_hot = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=RARE,
        max_categories=MOST_LEVELS,
        sparse_output=False,
    )
    median = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    return ColumnTransformer(
        [("numbers", median, numbers), ("categories", make_pipeline(fill, one_hot), categories)],
        verbose_feature_names_out=False,
    )


def input_names(fitted: ColumnTransformer) -> list[str]:
    """Names of the network's inputs, which follow from those of the columns."""
    names: list[str] = []
    for part, transformer, columns in fitted.transformers_:
        if part not in ("numbers", "categories") or not columns:
            continue
        made = [str(name) for name in transformer.get_feature_names_out(columns)]
        if part == "numbers":
            marks = [name.removeprefix("missingindicator_") for name in made[len(columns) :]]
            names += [*made[: len(columns)], *(f"{name} missing" for name in marks)]
        else:
            rare = "_infrequent_sklearn"
            names += [
                f"{name.removesuffix(rare)} rare" if name.endswith(rare) else name for name in made
            ]
    return names


def unknown_levels(fitted: ColumnTransformer, table: Table) -> list[str]:
    """Cells with a level that was not there in `fit`, by line and column."""
    notes: list[str] = []
    encoder = fitted.named_transformers_["categories"]
    names = next(each[2] for each in fitted.transformers_ if each[0] == "categories")
    if not names:
        return notes
    for name, levels in zip(names, encoder[-1].categories_, strict=True):
        cells: pd.Series = table.inputs[name]
        strange = (cells.notna() & ~cells.isin(levels)).to_numpy().nonzero()[0]
        for place in strange[:SHOWN_CELLS]:
            notes.append(
                f"line {table.lines[place]}, column {name!r}: {str(cells.iloc[place])[:40]!r} was "
                "not in the rows that were learned from; taken as a rare level"
            )
        if len(strange) > SHOWN_CELLS:
            notes.append(f"column {name!r}: {len(strange) - SHOWN_CELLS} more such cells")
    return notes
