"""Rows of a table that stand in it more than once."""

from __future__ import annotations

import numpy as np
import pandas as pd
from torch import Tensor

from dims.estimators.tables.naming import lines_named
from dims.model.copies import copy_groups

__all__ = ["note_on_copies", "repeated_rows"]


def repeated_rows(inputs: pd.DataFrame, target: np.ndarray) -> Tensor | None:
    """The group of each row; copies of a row share one. None where no row has a copy."""
    if not inputs.shape[1]:
        return None
    same = inputs.groupby([*inputs], dropna=False, sort=False).ngroup()
    return copy_groups(same.tolist(), target.tolist())


def note_on_copies(inputs: pd.DataFrame, target: np.ndarray, lines: np.ndarray) -> str:
    """Which lines repeat an earlier one, and what that means; "" where none does."""
    groups = repeated_rows(inputs, target)
    if groups is None:
        return ""
    again = groups.numpy() != np.arange(len(lines))
    subject = f"{again.sum()} rows repeat" if again.sum() > 1 else "one row repeats"
    return (
        f"{subject} an earlier one in the target and in all columns that are used "
        f"({lines_named(lines[again])}): equal rows stay together where rows are held out. If they "
        "are copies and were not measured again, delete them"
    )
