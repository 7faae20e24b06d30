"""What a CSV file holds, as far as `dims init --csv` must know."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from dims.errors import TableError

__all__ = ["GAPS", "Table", "read_table"]

MAX_CLASSES = 10  # whole numbers of more kinds than this are quantities
FEWEST_ROWS = 10
MAX_BYTES = 2**30


GAPS = ("", "n/a", "na", "nan", "null", "none", "?", "-")  # entries that stand for none


@dataclass(frozen=True)
class Table:
    """Columns to read, and what the last of them is."""

    inputs: list[str]
    target: str
    likelihood: str
    rows: int  # complete ones
    gaps: int  # rows that are not
    left_out: list[str]  # columns that are not numbers


def read_table(path: Path, target: str | None) -> Table:
    """Look at the whole file once: which columns are numbers, and what kind the target is."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TableError(f"{path} is larger than 1 GiB; take a part of it")
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            names = list(reader.fieldnames or ())
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{str(path)[:80]!r} cannot be read as a CSV file ({error})") from error
    if len(set(names)) != len(names) or not all(names):
        raise TableError(f"the first line of {path} must name every column once, it is {names[:8]}")
    if len(names) < 2:
        raise TableError(f"{path} has {len(names)} columns; separate them with commas")
    if target is None:
        target = names[-1]
    if target not in names:
        raise TableError(f"no column {target!r}; there are {', '.join(names[:20])}")
    columns = {name: [_entry(row[name]) for row in rows] for name in names}
    inputs = [name for name in names if name != target and _numbers(columns[name])]
    if not inputs:
        raise TableError(f"no column of numbers beside {target!r}; a network needs one")
    complete = sum(all(columns[name][i] for name in (*inputs, target)) for i in range(len(rows)))
    if complete < FEWEST_ROWS:
        raise TableError(f"{complete} complete rows; at least {FEWEST_ROWS} are needed")
    kind = _likelihood([entry for entry in columns[target] if entry])
    left_out = [name for name in names if name not in (*inputs, target)]
    return Table(inputs, target, kind, complete, len(rows) - complete, left_out)


def _entry(text: str | None) -> str:
    """What is in a cell; nothing, if that is a word for nothing."""
    entry = (text or "").strip()
    return "" if entry.lower() in GAPS else entry


def _numbers(entries: list[str]) -> bool:
    """Whether all that is there are finite numbers, and something is."""
    try:
        values = [float(entry) for entry in entries if entry]
    except ValueError:
        return False
    return bool(values) and all(map(math.isfinite, values))


def _likelihood(entries: list[str]) -> str:
    if not _numbers(entries):
        return "classification"
    whole = all(float(entry).is_integer() for entry in entries)
    return "classification" if whole and len(set(entries)) <= MAX_CLASSES else "regression"
