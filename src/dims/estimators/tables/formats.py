"""How a CSV file is written: separator, decimal sign and encoding, found from its bytes."""

from __future__ import annotations

import csv
from dataclasses import dataclass

import pandas as pd

from dims.estimators.tables.decimals import decimal_of
from dims.prediction.showing import ShownSettings

__all__ = ["SEPARATORS", "Format", "find_format"]

SEPARATORS = (",", ";", "\t", "|")
LOOK_AT = 2**17  # characters that decide about separator and decimal sign


@dataclass(frozen=True)
class Format(ShownSettings):
    """How a CSV file is written.

    Attributes:
        separator: Between two cells.
        decimal: The decimal sign of numbers.
        encoding: Of the text.
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"


def find_format(content: bytes, usual: Format | None = None) -> Format:
    """The format of a file.

    Args:
        content: Its bytes.
        usual: Of files like it: its decimal sign is taken, and where the bytes leave them open its
            separator and encoding.
    """
    encoding = _encoding_of(content, usual)
    text = content.decode(encoding, errors="replace")
    start = text[:LOOK_AT]
    if len(start) < len(text):
        start = start.rpartition("\n")[0] or start  # the last line may be cut
    separator = _separator_of(start, usual)
    if usual is not None:
        return Format(separator, usual.decimal, encoding)
    rows = list(csv.reader(start.splitlines(), delimiter=separator))[1:]
    cells = pd.Series([cell for row in rows for cell in row], dtype="object")
    return Format(separator, decimal_of(cells, separator), encoding)


def _encoding_of(content: bytes, usual: Format | None) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if content[:3] == b"\xef\xbb\xbf":
        return "utf-8-sig"
    other = "cp1252" if usual is None else usual.encoding
    if content.isascii():
        same = usual is not None and _decoded(content, other) == content.decode("ascii")
        return other if same else "utf-8"
    # UTF-16 decodes nearly all bytes, and without its mark they are something else.
    likely = [each for each in ("utf-8", other, "cp1252") if not each.lower().startswith("utf-16")]
    return next((each for each in likely if _decoded(content, each) is not None), "latin-1")


def _decoded(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except (UnicodeError, LookupError):
        return None


def _separator_of(text: str, usual: Format | None) -> str:
    def merit(separator: str) -> tuple[float, bool, int]:
        share, width = _regularity(text, separator)
        return share, usual is not None and separator == usual.separator, width

    found = max(SEPARATORS, key=merit)
    if merit(found)[-1] < 2:  # one column, whose numbers may have decimal commas
        return next((each for each in SEPARATORS if each not in text), found)
    return found


def _regularity(text: str, separator: str) -> tuple[float, int]:
    """The share of lines with as many cells as the first one, and this number."""
    try:
        widths = [len(row) for row in csv.reader(text.splitlines(), delimiter=separator) if row]
    except csv.Error:
        return 0.0, 0
    if not widths or widths[0] < 2:
        return 0.0, 0
    return sum(width == widths[0] for width in widths) / len(widths), widths[0]
