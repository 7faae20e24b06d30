"""Missing cells: in how many training rows a column must miss them to learn what a gap means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer

__all__ = ["FEWEST_GAPS", "Filler", "few_gaps"]

# Where rows miss a number by chance, the RMSE of predictions for such rows was 1.8 times that of
# the average over values if three training rows had a gap, 1.3 times if ten had, and 1.07 times if
# twenty had (docs/sklearn.md); the number of other rows hardly matters. But a gap that means
# something, as no garden does, is not in the average: from ten rows on it is learned.
FEWEST_GAPS = 10


def few_gaps(cells: pd.Series) -> bool:
    """Whether so few training rows miss a cell of this column, or none, that a network cannot learn
    what a gap means."""
    return int(cells.isna().sum()) < FEWEST_GAPS


class Filler(SimpleImputer):
    """A `SimpleImputer` whose indicator marks gaps in columns alone where enough rows of `fit` have
    one."""

    def fit(self, X: Any, y: Any = None) -> Filler:
        super().fit(X, y)
        if self.add_indicator:
            gaps = np.isnan(np.asarray(X, dtype=float)).sum(axis=0)
            self.indicator_.features_ = np.flatnonzero(gaps >= FEWEST_GAPS)
        return self
