"""Columns of a table as the numbers that a network takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from numbers import Integral, Real
from typing import Any

import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from dims.errors import TableError
from dims.estimators.tables.columns import CATEGORY, LEFT_OUT
from dims.estimators.tables.gaps import FEWEST_GAPS, Filler
from dims.estimators.tables.naming import SHOWN_CELLS, counted
from dims.estimators.tables.spelling import likely_spelling, same_word
from dims.estimators.tables.typed import Table

__all__ = ["NOTHING", "decisions", "filled", "fills_with_a_number", "hardly_seen"]
__all__ += ["input_names", "learned_levels", "preparation"]

NOTHING = "(missing)"
FEWEST_OF_A_VALUE = 5  # training rows; from fewer a network can hardly learn what a flag means


def preparation(
    columns: Mapping[str, str],
    fill: str | float = "median",
    mark_missing: bool = True,
    rare: int = 4,
    most_levels: int = 20,
) -> ColumnTransformer:
    """A scikit-learn transformer for the inputs of a `Table`.

    A missing number is filled, and where at least ten rows of `fit` miss one, another column says
    where that was. A category becomes one column of 0 and 1 for each level; rare levels share one,
    levels that were not there in `fit` count as rare ones (all 0 where there are none), and
    "missing" is a level.

    Args:
        columns: The kind of each column; "leave out" leaves it out.
        fill: What a missing number or date becomes: the "median" or "mean" of the rows in `fit`,
            or a number.
        mark_missing: Whether a column of 0 and 1 says where a number was missing, if enough were.
        rare: Levels in fewer rows of `fit` than this share one column; 1 groups none.
        most_levels: Most columns of a category; its rarest levels share the last one.

    Returns:
        The transformer, to be used in a pipeline before an estimator.

    Raises:
        TableError: A setting is out of its range.
    """
    _check(fill, rare, most_levels)
    used = {name: kind for name, kind in columns.items() if kind != LEFT_OUT}
    categories = [name for name, kind in used.items() if kind == CATEGORY]
    numbers = [name for name in used if name not in categories]
    nothing = SimpleImputer(strategy="constant", fill_value=NOTHING, missing_values=None)
    one_hot = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=rare,
        max_categories=most_levels,
        sparse_output=False,
    )
    named = isinstance(fill, str)
    filler = Filler(
        strategy=fill if named else "constant",
        fill_value=None if named else float(fill),
        add_indicator=mark_missing,
        keep_empty_features=True,
    )
    return ColumnTransformer(
        [
            ("numbers", filler, numbers),
            ("categories", make_pipeline(nothing, one_hot), categories),
        ],
        verbose_feature_names_out=False,
    )


def decisions(transformer: ColumnTransformer, known: Table) -> list[str]:
    """What the preparation does to the rows to learn from, where a column is affected.

    Args:
        transformer: From `preparation`; it stays as it is.
        known: The rows to learn from.

    Returns:
        A sentence for each column with missing cells, for each with levels that are grouped or
        seem to be one, and for each of two values one of which hardly any row has.
    """
    fitted = clone(transformer).fit(known.inputs)
    gaps = filled(fitted, known.inputs.isna())
    return [*gaps, *_grouped(fitted), *_alike(fitted, known), *_hardly_seen(known)]


def filled(fitted: ColumnTransformer, missing: pd.DataFrame) -> list[str]:
    """How many cells of each column are missing, and what becomes of them."""
    notes = []
    for part, transformer, columns in _parts(fitted):
        for place, name in enumerate(columns):
            count = int(missing[name].sum())
            if not count:
                continue
            done = f"a level of their own, {NOTHING!r}"
            if part == "numbers":
                own = transformer.strategy == "constant"
                what = "" if own else f"the {transformer.strategy} of the training rows, "
                marks = transformer.indicator_.features_ if transformer.add_indicator else []
                marked = "another input marks them" if place in marks else "no input marks them"
                if transformer.add_indicator and place not in marks:
                    marked += f", because it takes {FEWEST_GAPS} rows to learn what a gap means"
                done = f"filled with {what}{transformer.statistics_[place]:g}; {marked}"
            are = "is" if count == 1 else "are"
            notes.append(f"column {name!r}: {count} of {len(missing)} cells {are} missing; {done}")
    return notes


def _grouped(fitted: ColumnTransformer) -> list[str]:
    """Levels that share an input."""
    notes = []
    for part, transformer, columns in _parts(fitted):
        if part == "numbers":
            continue
        encoder = transformer[-1]
        found = (columns, encoder.infrequent_categories_, encoder.categories_)
        for name, levels, every in zip(*found, strict=True):
            flag = len({*every} - {NOTHING}) <= 2
            if levels is None or (len(levels) == 1 and flag):  # nothing is shared
                continue
            common = set(every) - set(levels)
            listed = ", ".join(_named_level(level, common) for level in levels[:SHOWN_CELLS])
            share = f"{len(levels)} rare levels share one input"
            notes.append(
                f"column {name!r}: {share if len(levels) > 1 else '1 level is rare'} ({listed}"
                f"{', …' if len(levels) > SHOWN_CELLS else ''}); rare means {_rare(encoder, every)}"
            )
    return notes


def _rare(encoder: OneHotEncoder, levels: Sized) -> str:
    few, most = encoder.min_frequency, encoder.max_categories
    reasons = [f"in fewer than {few} training rows"] if few > 1 else []
    reasons += [f"not among the {most - 1} most frequent levels"] if len(levels) > most else []
    return ", or ".join(reasons)


def _alike(fitted: ColumnTransformer, known: Table) -> list[str]:
    """Levels that seem to be one, although neither is rare; of others it is said elsewhere."""
    notes = []
    for part, transformer, columns in _parts(fitted):
        for name in columns if part == "categories" else []:
            seen = known.inputs[name].value_counts()
            if len(seen) == 2 and seen.iloc[1] < FEWEST_OF_A_VALUE:
                continue
            levels = [str(level) for level in seen.index[seen >= transformer[-1].min_frequency]]
            for place, level in enumerate(levels):
                meant = next((other for other in levels[:place] if same_word(level, other)), None)
                if meant is not None:
                    notes.append(
                        f"column {name!r}: {level[:20]!r} ({counted(seen[level], 'row')}) and "
                        f"{meant[:20]!r} ({counted(seen[meant], 'row')}) are two levels; if they "
                        "are one, write them alike"
                    )
    return notes


def hardly_seen(cells: pd.Series) -> tuple[Any, int] | None:
    """The rarer of two values of a column and its rows, if these are too few to learn it from."""
    seen = _values(cells)
    if len(seen) == 2 and seen.iloc[1] < FEWEST_OF_A_VALUE:
        return seen.index[1], int(seen.iloc[1])
    return None


def _values(cells: pd.Series) -> pd.Series:
    """How often each value is there, the most frequent first; beside one level, none is another."""
    single = not pd.api.types.is_numeric_dtype(cells) and cells.nunique() < 2
    return (cells.fillna(NOTHING) if single else cells).value_counts()


def _hardly_seen(known: Table) -> list[str]:
    """Columns of two values, such as 0 and 1, of which one is in very few rows or in none."""
    found = {}
    for name, cells in known.inputs.items():
        numbers, seen = pd.api.types.is_numeric_dtype(cells), _values(cells)
        values = [f"{value:g}" if numbers else repr(str(value)[:20]) for value in seen.index[:2]]
        if len(seen) == 1 and cells.notna().all():
            few = f"all {len(known)} training rows have {values[0]}"
            learns = "cannot learn what another value means"
        elif hardly_seen(cells) is not None:
            have = "has" if seen.iloc[1] == 1 else "have"
            few = f"only {seen.iloc[1]} of {len(known)} training rows {have} {values[1]}"
            meant = None if numbers else likely_spelling(seen.index[1], seen.index[:1])
            few += f" (is it {meant[:20]!r}?)" if meant else ""
            learns = "can hardly learn what it means"
        else:
            continue
        found[name] = (
            f"column {name!r}: {few}; the network {learns}, so predictions for such rows are "
            f"guesses: add such rows, or make the column {LEFT_OUT!r}"
        )
    more = [repr(name) for name in found][SHOWN_CELLS:]
    others = [f"{len(more)} more such columns: {', '.join(more)[:200]}"] if more else []
    return [*found.values()][:SHOWN_CELLS] + others


def _named_level(level: object, common: set[object]) -> str:
    meant = likely_spelling(str(level), common)
    return str(level)[:20] + (f": is it {meant[:20]!r}?" if meant else "")


def _check(fill: object, rare: object, most_levels: object) -> None:
    number = isinstance(fill, Real) and not isinstance(fill, bool) and math.isfinite(fill)
    if not number and fill not in ("median", "mean"):
        raise TableError(f'FILL: must be "median", "mean" or a number, is {fill!r}')
    for name, value, lowest in (("RARE", rare, 1), ("MOST_LEVELS", most_levels, 2)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < lowest:
            raise TableError(f"{name}: must be a whole number of at least {lowest}, is {value!r}")


def _parts(fitted: ColumnTransformer) -> list[tuple[str, Any, list[str]]]:
    """The transformers that have columns, by name."""
    return [
        (name, transformer, columns)
        for name, transformer, columns in fitted.transformers_
        if name != "remainder" and columns
    ]


def input_names(fitted: ColumnTransformer) -> list[str]:
    """Names of the network's inputs, which follow from those of the columns."""
    names: list[str] = []
    for part, transformer, columns in _parts(fitted):
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


def learned_levels(fitted: ColumnTransformer) -> dict[str, set[object]]:
    """The levels of each category that were there in `fit`; a missing one is `NOTHING`."""
    return {
        name: set(levels)
        for part, transformer, columns in _parts(fitted)
        if part == "categories"
        for name, levels in zip(columns, transformer[-1].categories_, strict=True)
    }


def fills_with_a_number(fitted: ColumnTransformer) -> bool:
    """Whether a person has said what a missing number means."""
    return bool(fitted.named_transformers_["numbers"].strategy == "constant")
