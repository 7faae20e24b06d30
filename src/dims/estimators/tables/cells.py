"""Cells as numbers: signs of thousands and currencies are ignored, a unit is split off."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pandas as pd

__all__ = ["common_unit", "parse_numbers", "split_unit"]

CURRENCY = re.compile(r"[\s€$£¥%']")
# A unit begins with a letter or a degree sign; its only digit is a last one, as in m2.
WITH_UNIT = re.compile(r"([-+]?[\d.,\s'€$£¥]*\d)\s*([^\W\d_°][^\d]{0,15}[23]?|°[^\d]{0,5})")


def parse_numbers(cells: pd.Series, decimal: str = ".", unit: str = "") -> pd.Series:
    """Finite numbers; NaN where a cell is missing or is no number.

    Thousands may be grouped ("1,250.5", or "1.250,5" with a decimal comma), and currency and
    per-cent signs are ignored.

    Args:
        cells: Text; None is missing.
        decimal: The decimal sign.
        unit: What may follow each number, such as "kg".
    """
    if unit:
        cells = cells.map(lambda cell: _without(unit, cell), na_action="ignore")
    return pd.Series([_number(cell, decimal) for cell in cells], cells.index, dtype=float)


def split_unit(cell: str) -> tuple[str, str]:
    """A number as text and the unit that follows it; the whole cell and "" where none does."""
    found = WITH_UNIT.fullmatch(cell)
    return (found[1], found[2]) if found else (cell, "")


def common_unit(cells: pd.Series) -> str:
    """The unit that follows the number in more than half of the cells; "" where none does."""
    units = cells.dropna().map(lambda cell: split_unit(cell)[1])
    found = units.value_counts()
    return str(found.index[0]) if len(found) and found.iloc[0] > 0.5 * len(units) else ""


def _without(unit: str, cell: str) -> str:
    number, found = split_unit(cell)
    return number if found == unit else cell


def _number(cell: object, decimal: str) -> float:
    if not isinstance(cell, str):  # missing
        return np.nan
    cell = CURRENCY.sub("", cell)
    if _grouped(decimal).fullmatch(cell):
        cell = cell.replace("." if decimal == "," else ",", "")
    if decimal == ",":
        cell = cell.replace(",", ".") if "." not in cell else ""
    try:
        value = float(cell) if "_" not in cell else np.nan
    except ValueError:
        return np.nan
    return value if np.isfinite(value) else np.nan


@cache
def _grouped(decimal: str) -> re.Pattern[str]:
    """Numbers whose thousands are grouped; no group begins with 0, as in 0.716."""
    group = re.escape("." if decimal == "," else ",")
    return re.compile(rf"[-+]?[1-9]\d{{0,2}}(?:{group}\d{{3}})+(?:{re.escape(decimal)}\d+)?")
