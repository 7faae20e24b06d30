"""A CSV file as text, whose rows know their lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dims.errors import TableError
from dims.estimators.tables.cells import parse_numbers
from dims.estimators.tables.formats import Format, find_format
from dims.estimators.tables.not_tables import what_it_is_instead
from dims.prediction.showing import Shown

__all__ = ["SEPARATE", "TextTable", "read_text", "shown", "some_names", "write"]

SHOWN_NAMES = 4
MAX_BYTES = 2**30
SEPARATE = "put one of , ; | or a tab between names, and between cells"
EMPTY = "{} is empty; a table has a line of names and a line for each row"
BLANK = b" \t\r\n\xff\xfe\xef\xbb\xbf"  # marks of encodings included
MISSING = ("", "n/a", "na", "nan", "null", "none", "?", "-", ".", "#n/a", "<na>", "nat")


@dataclass(frozen=True, eq=False, repr=False)
class TextTable(Shown):
    """The cells of a file as text; None where a cell is empty or says that nothing is known.

    Attributes:
        path: The file.
        cells: Text, with the names of the columns.
        lines: The line of each row in the file, counted from 1.
        format: How the file is written.
    """

    path: Path
    cells: pd.DataFrame
    lines: np.ndarray
    format: Format

    def _facts(self) -> Mapping[str, Any]:
        return {
            "file": self.path.name[:40],
            "rows": len(self.cells),
            "columns": some_names(self.cells.columns),
            "missing_cells": int(self.cells.isna().sum().sum()),
            "separator": repr(self.format.separator),
        }


def read_text(
    path: str | Path,
    format: Format | None = None,
    fewest: int = 2,
    usual: Format | None = None,
) -> TextTable:
    """Read a table whose first line names its columns.

    Args:
        path: The file.
        format: How it is written; None finds out.
        fewest: Columns that it must have; a table of rows to be predicted may have a single one.
        usual: How files like it are written, if `format` is None. Its decimal sign is taken, and
            its separator and encoding where the file leaves them open.

    Returns:
        All rows that are not blank.

    Raises:
        TableError: The file cannot be read, or is not such a table.
    """
    path = Path(path)
    try:
        content = _bytes_of(path)
        chosen = find_format(content, usual) if format is None else format
        _check_encoding(path, content, chosen.encoding)
        cells = _parse(path, chosen)
    except (OSError, ValueError, LookupError, OverflowError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{shown(path)} cannot be read ({_reason(error)})") from error
    cure = SEPARATE if format is None else f"FORMAT says that {format.separator!r} separates them"
    return _with_names(path, cells, chosen, fewest, cure)


def write(frame: pd.DataFrame, path: str | Path, format: Format) -> None:
    """Write a table in the same format as the one it comes from.

    Args:
        frame: The table.
        path: The file.
        format: Separator, decimal sign and encoding.
    """
    frame.to_csv(
        path,
        sep=format.separator,
        decimal=format.decimal,
        encoding=format.encoding,
        errors="replace",
        index=False,
        float_format="%.10g",
    )


def shown(path: Path) -> str:
    """The name of a file, cut where it is very long."""
    name = str(path)
    return name if len(name) <= 80 else "…" + name[-79:]


def some_names(names: Iterable[object]) -> str:
    """The number of columns and the first names, cut where they are long."""
    listed = [str(name)[:12] for name in names]
    return f"{len(listed)} ({'; '.join(listed[:SHOWN_NAMES])}{'; …' * (len(listed) > SHOWN_NAMES)})"


def _bytes_of(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise TableError(f"{shown(path)} is larger than 1 GiB; take a part of it")
    content = path.read_bytes()
    if not content.strip(BLANK):
        raise TableError(EMPTY.format(shown(path)))
    instead = what_it_is_instead(content)
    if instead:
        raise TableError(f"{shown(path)} is not a CSV table: it is {instead}")
    return content


def _check_encoding(path: Path, content: bytes, encoding: str) -> None:
    """Refuse bytes that are not text in an encoding, and name one in which they are."""
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        line, likely = content.count(b"\n", 0, error.start) + 1, find_format(content).encoding
        raise TableError(
            f"{shown(path)} is not text in {encoding}: line {line} has the byte "
            f"{content[error.start]:#04x}"
            + (f'; set encoding="{likely}" in FORMAT' if likely != encoding else "")
        ) from error


def _parse(path: Path, format: Format) -> pd.DataFrame:
    return pd.read_csv(
        path,
        sep=format.separator,
        encoding=format.encoding,
        header=None,
        dtype=str,
        na_filter=False,
        skip_blank_lines=False,
        skipinitialspace=True,
    ).fillna("")


def _with_names(
    path: Path, cells: pd.DataFrame, format: Format, fewest: int, cure: str
) -> TextTable:
    """The first line that is not blank has the names."""
    breaks = sum(cells[column].str.count("\n") for column in cells).to_numpy(int)
    lines = 1 + np.arange(len(cells)) + np.cumsum(breaks) - breaks
    # An object column, because pandas' own text type turns None into NaN.
    text = cells.apply(lambda column: column.str.strip()).astype("object")
    filled = (text != "").any(axis=1).to_numpy()
    text, lines = text[filled], lines[filled]
    if text.empty:
        raise TableError(EMPTY.format(shown(path)))
    names = [name or f"column {place + 1}" for place, name in enumerate(text.iloc[0])]
    if len(names) < fewest:
        raise TableError(
            f"the first line of {shown(path)} is one column, {names[0][:60]!r}; {cure}"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(
            f"the first line of {shown(path)} must name every column once; it has "
            f"{', '.join(map(repr, twice[:5]))} more than once"
        )
    if parse_numbers(pd.Series(names, dtype="object")).notna().all():
        raise TableError(f"the first line of {shown(path)} has numbers; it must name the columns")
    body = text.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)
    known = body.map(lambda cell: None if cell.lower() in MISSING else cell).astype("object")
    return TextTable(path, known.where(known.notna(), None), lines[1:], format)


def _reason(error: Exception) -> str:
    """What pandas or the system says, for a person."""
    wide = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if wide:
        found = f"line {wide[2]} has {wide[3]} cells, and the first line {wide[1]}"
        return f'{found}; put cells that contain a separator in quotes, as "a, b"'
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())[:200] or type(error).__name__
