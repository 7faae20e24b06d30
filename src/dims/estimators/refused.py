"""Arguments of `fit` that estimators refuse, with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["gaps_explained", "refuse", "refuse_words"]


def refuse(given: dict[str, Any]) -> None:
    """scikit-learn looks for `sample_weight` in the signature; who passes it anyway is told why."""
    if given.pop("sample_weight", None) is not None:
        raise TypeError(
            "sample_weight: the loss that is sampled counts every row once; repeat rows by "
            "resampling (sklearn.utils.resample), or give the loss as a dims.Likelihood to dims.fit"
        )
    if given:
        raise TypeError(f"fit: unknown arguments {', '.join(given)}; it takes X and y")


def refuse_words(y: Any) -> None:
    """Targets of a regression that are words are probably classes."""
    if np.asarray(y).dtype.kind not in "OSU":
        return
    for value in np.asarray(y).ravel():
        try:
            float(value)
        except (TypeError, ValueError):
            told = f"y: {value!r} is not a number; to predict classes take DimsClassifier"
            raise ValueError(told) from None


@contextmanager
def gaps_explained() -> Iterator[None]:
    """What to do about missing values, where scikit-learn would name estimators of its own."""
    try:
        yield
    except ValueError as error:
        told = str(error)
        if "contains NaN" not in told:
            raise
        raise ValueError(
            f"{told.splitlines()[0]} Fill them first: put sklearn.impute.SimpleImputer("
            "add_indicator=True) before the estimator in a pipeline, or take "
            "dims.estimators.tables.preparation"
        ) from None
