"""The decimal sign of cells, comma or point: some are numbers with one of them only.

"1,5" and "0,716" are numbers with a decimal comma, "2.5" is one with a point; "2,107" is 2.107 or
2107.
"""

from __future__ import annotations

import pandas as pd

from dims.estimators.tables.cells import parse_numbers, split_unit

__all__ = ["OTHER_SIGN", "decimal_of", "differ", "has_other_sign", "told_by", "with_both_signs"]

OTHER_SIGN = {",": ".", ".": ","}
NAMES = {",": "decimal comma", ".": "decimal point"}


def decimal_of(cells: pd.Series, separator: str) -> str:
    """The sign that more cells need. Where they leave it open it is a point, but a comma between
    semicolons: these separate cells where commas are decimal signs."""
    read = with_both_signs(cells)
    needs = {sign: int(told_by(read, sign).sum()) for sign in OTHER_SIGN}
    if needs[","] == needs["."]:
        return "," if separator == ";" and bool(differ(read).any()) else "."
    return max(needs, key=lambda sign: needs[sign])


def with_both_signs(cells: pd.Series) -> pd.DataFrame:
    """The numbers that cells are with each sign; units do not matter."""
    bare = cells.map(lambda cell: split_unit(cell)[0], na_action="ignore")
    return pd.DataFrame({sign: parse_numbers(bare, sign) for sign in OTHER_SIGN})


def has_other_sign(cells: pd.Series, decimal: str, unit: str = "") -> str:
    """That cells which are not numbers are some with the other decimal sign; "" where none is."""
    other = OTHER_SIGN[decimal]
    found = parse_numbers(cells, other, unit).notna()
    if not found.any():
        return ""
    subject = "they have" if found.all() else "some have"
    subject = "it has" if cells.nunique() == 1 else subject
    return f"{subject} a {NAMES[other]}, and this file has {NAMES[decimal]}s"


def told_by(read: pd.DataFrame, sign: str) -> pd.Series:
    """Which cells are numbers with this decimal sign, and not with the other."""
    return read[sign].notna() & read[OTHER_SIGN[sign]].isna()


def differ(read: pd.DataFrame) -> pd.Series:
    """Which cells are numbers with both signs, and not the same."""
    return read.notna().all(axis=1) & (read[","] != read["."])
