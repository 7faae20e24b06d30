"""What each column of a table is: numbers, categories, dates, or nothing that a network can use."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from dims.errors import TableError
from dims.estimators.tables.cells import common_unit, parse_numbers, split_unit
from dims.estimators.tables.reading import TextTable

__all__ = ["BAD_CELLS", "CATEGORY", "DATE", "LEFT_OUT", "NUMBER", "Column"]
__all__ += ["choose_columns", "choose_task", "looks_like_a_row", "parse_dates", "unit_of"]

NUMBER, CATEGORY, DATE, LEFT_OUT = "number", "category", "date", "leave out"

MAX_CLASSES = 10  # whole numbers of more kinds than this are quantities
BAD_CELLS = 0.2  # a column of numbers or dates may have so large a part of other cells
REPEATED = 4  # text or a unit in fewer cells is a slip
LEVEL_OFTEN = 0.05  # text without a digit in a smaller part of a column of numbers is one too
MOST_LEVELS = 0.5  # text with more levels than this part of its cells is no category
FEW_LEVELS = 10  # which always are
DATES: tuple[str, ...] = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%d.%m.%y",
)
DATES += ("%m/%d/%y", "%d/%m/%y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%Y-%m")
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M", " %H:%M:%S.%f", "T%H:%M:%SZ")
IDENTIFIER = re.compile(
    r"(?i:(?:.*[\s_.-])?(?:id|ids|uuid|guid|key|index|nr|no|number|row|column \d+))|.*[a-z]I[dD]"
)
_ORDERED = {  # advice about whole numbers, by what a person has chosen
    None: "; if their order counts, as in a rating, regression",
    "regression": (
        "; intervals can reach outside of these: if it is a rating, which is bounded, "
        "classification gives a probability for each value"
    ),
}


class Column(NamedTuple):
    """What is done with a column ("number", "number UNIT", "category", "date FORMAT", "leave out"),
    and why."""

    kind: str
    why: str


def choose_columns(table: TextTable, target: str) -> dict[str, Column]:
    """A kind for every column beside the target.

    Args:
        table: The file as text.
        target: The column to predict.

    Returns:
        Kinds by the names of columns.

    Raises:
        TableError: No column can be used.
    """
    rows = table.cells[table.cells[target].notna()]
    inputs = [name for name in rows.columns if name != target]
    found = {name: _kind(rows[name], table.format.decimal) for name in inputs}
    first = next(iter(inputs), None)
    counting = {name for name, column in found.items() if _identifies(column, rows[name], first)}
    # A table of one input may count its rows: that input is a time or a place.
    if counting < {name for name, column in found.items() if column.kind != LEFT_OUT}:
        for name in counting:
            found[name] = Column(LEFT_OUT, "an identifier: another value in every row")
    if all(column.kind == LEFT_OUT for column in found.values()):
        reasons = "; ".join(f"{name}: {column.why}" for name, column in list(found.items())[:5])
        raise TableError(f"no column beside {target!r} can be used ({reasons})")
    return found


def choose_task(table: TextTable, target: str, task: str | None = None) -> Column:
    """ "regression" or "classification", and why.

    Args:
        table: The file as text.
        target: The column to predict.
        task: What a person has chosen; None chooses by the values.

    Raises:
        TableError: The column is empty, or has one value only.
    """
    cells = table.cells[target].dropna()
    if cells.empty:
        raise TableError(f"column {target!r} is empty; it cannot be predicted")
    kinds, unit = cells.nunique(), common_unit(cells)
    if kinds == 1:
        raise TableError(
            f"column {target!r} has one value only ({cells.iloc[0]!r}); there is nothing to predict"
        )
    numbers = parse_numbers(cells, table.format.decimal, unit)
    if not _mostly(numbers):
        why = f"{kinds} classes{_different_units(cells, numbers)}"
        return Column(task or "classification", why)
    values = numbers.dropna()
    span = f"{values.min():g} to {values.max():g}{f' {unit}' * bool(unit)}"
    if (values % 1 != 0).any() or values.nunique() > MAX_CLASSES:
        return Column(task or "regression", f"numbers from {span}")
    why = f"whole numbers of {values.nunique()} kinds, {span}"
    return Column(task or "classification", f"{why}{_ORDERED.get(task, '')}")


def unit_of(kind: str) -> str | None:
    """What may follow the numbers of a column, "" for nothing; None if it has no numbers."""
    if kind == NUMBER:
        return ""
    return kind.removeprefix(f"{NUMBER} ") if kind.startswith(f"{NUMBER} ") else None


def parse_dates(cells: pd.Series, form: str) -> pd.Series:
    """Dates as years with a fraction; NaN where a cell is missing or has another form."""
    dates = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
    days = (dates - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(days=1)
    return 1970 + days / 365.25


def looks_like_a_row(table: TextTable) -> bool:
    """Whether the first line seems to hold cells, not names: most names are what stands below them,
    numbers over numbers, dates over dates, or a text that is there again.

    Args:
        table: The file as text.
    """
    alike = 0
    for name in table.cells:
        cells, word = table.cells[name].dropna(), pd.Series([str(name)], dtype="object")
        if cells.empty:
            continue
        kind = _kind(table.cells[name], table.format.decimal).kind
        if _mostly(parse_numbers(cells, table.format.decimal)):
            alike += bool(parse_numbers(word, table.format.decimal).notna().all())
        elif kind.startswith(f"{DATE} "):
            alike += bool(parse_dates(word, kind.removeprefix(f"{DATE} ")).notna().all())
        else:
            alike += bool((cells == str(name)).any())
    return alike > 0.5 * table.cells.shape[1]


def _kind(cells: pd.Series, decimal: str) -> Column:
    known = cells.dropna()
    gaps = f", {len(cells) - len(known)} missing" if len(known) < len(cells) else ""
    levels = known.nunique()
    if levels < 2:
        return Column(LEFT_OUT, "one value only" if levels else "empty")
    numbers = parse_numbers(known, decimal)
    texts = _text_levels(known, numbers) if _mostly(numbers) else []
    if _mostly(numbers) and not texts:
        span = f"from {numbers.min():g} to {numbers.max():g}"
        return Column(NUMBER, f"{span}{_bad(numbers, 'numbers')}{gaps}")
    form = _date_form(known)
    if form is not None:
        years = parse_dates(known, form)
        span = f"years, {years.min():.1f} to {years.max():.1f}"
        return Column(
            f"{DATE} {form}", f"{span}{_bad(years, 'such dates')}{gaps}{_order(known, form)}"
        )
    unit = common_unit(known)
    numbers = parse_numbers(known, decimal, unit)
    if unit and _mostly(numbers):
        span = f"from {numbers.min():g} to {numbers.max():g}, in {unit}"
        bare = int(parse_numbers(known, decimal).notna().sum())
        taken = f", {bare} of {len(known)} without the unit" if bare else ""
        return Column(f"{NUMBER} {unit}", f"{span}{taken}{_bad(numbers, 'such numbers')}{gaps}")
    units = _different_units(known, numbers)
    if levels > max(FEW_LEVELS, MOST_LEVELS * len(known)):
        return Column(LEFT_OUT, f"text with {levels} different entries in {len(known)} rows{units}")
    names = [str(name)[:20] for name in known.value_counts().index]
    listed = ", ".join(names[:5]) + (", …" if levels > 5 else "")
    beside = f"; levels beside the numbers: {', '.join(texts)}" if texts else ""
    return Column(CATEGORY, f"{levels} levels ({listed}){gaps}{beside}{units}")


def _mostly(parsed: pd.Series) -> bool:
    """Whether the cells are what was looked for, but for some, which are taken as missing."""
    bad = int(parsed.isna().sum())
    return bad < len(parsed) and bad <= BAD_CELLS * len(parsed)


def _bad(parsed: pd.Series, wanted: str) -> str:
    bad = int(parsed.isna().sum())
    are = f"is no {wanted[:-1]}" if bad == 1 else f"are not {wanted}"
    return f", {bad} of {len(parsed)} cells {are}" if bad else ""


def _different_units(cells: pd.Series, numbers: pd.Series) -> str:
    """That numbers cannot be compared, because each has one of a few units."""
    units = cells.map(lambda cell: split_unit(cell)[1])
    found = units[units != ""].value_counts()
    every = bool(_mostly(numbers.where(units == "", 0)))
    if not every or not 1 < len(found) <= FEW_LEVELS or found.iloc[1] < REPEATED:
        return ""
    listed = ", ".join(f"{unit} ({count})" for unit, count in found.items())
    return f"; numbers followed by different units: {listed}; convert them to one to use them"


def _text_levels(cells: pd.Series, numbers: pd.Series) -> list[str]:
    """Text beside few numbers that is no slip, and lost if it were taken as missing: it is there
    again, and has a digit, as "5+" beside 1 to 4, or stands in many cells."""
    if cells.nunique() > FEW_LEVELS:
        return []
    texts = cells[numbers.isna()].value_counts()
    often = LEVEL_OFTEN * len(cells)
    return [
        f"{text!r} ({count} cells)"
        for text, count in texts.items()
        if count >= REPEATED and (count >= often or re.search(r"\d", str(text)))
    ]


def _date_form(cells: pd.Series) -> str | None:
    """The form that fits most cells; month first where both orders fit, as pandas does."""
    start = cells.iloc[:50]
    if start.str.contains(r"\d").mean() < 1 - BAD_CELLS:
        return None
    fitting = []
    for form in (date + clock for date in DATES for clock in CLOCKS):
        if parse_dates(start, form).notna().any():
            parsed = parse_dates(cells, form)
            if _mostly(parsed):
                fitting.append((int(parsed.notna().sum()), form))
    return max(fitting, key=lambda each: each[0])[1] if fitting else None


def _order(cells: pd.Series, form: str) -> str:
    """Which of day and month was taken as the first, where all cells allow both."""
    if form.startswith("%Y") or not ("%d" in form and "%m" in form):
        return ""
    swapped = form.replace("%d", "%!").replace("%m", "%d").replace("%!", "%m")
    if parse_dates(cells, swapped).notna().sum() < parse_dates(cells, form).notna().sum():
        return ""
    first, other = ("day", "month") if form.index("%d") < form.index("%m") else ("month", "day")
    return f"; taken as {first} first, but {other} first fits too: '{DATE} {swapped}'"


def _identifies(column: Column, cells: pd.Series, first: str | None) -> bool:
    """Whole numbers, another one in each row: named as an identifier, or counting from the top."""
    unit = unit_of(column.kind)
    if unit is None or cells.isna().any() or cells.nunique() < len(cells):
        return False
    values = parse_numbers(cells, unit=unit)
    if values.isna().any() or (values % 1 != 0).any():
        return False
    counts = cells.name == first and values.iloc[0] in (0, 1) and (np.diff(values) == 1).all()
    return bool(counts or IDENTIFIER.fullmatch(str(cells.name)))
