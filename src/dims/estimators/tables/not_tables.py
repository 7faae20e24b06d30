"""Files that are not CSV tables: what a file is instead, by its first bytes, and what to do."""

from __future__ import annotations

import json
import re

__all__ = ["what_it_is_instead"]

SAVE = "save the table in it as a CSV file"
SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", f"a PDF; {SAVE}"),
    (b"PK\x03\x04", f"a spreadsheet or a zip file; {SAVE}"),
    (b"\xd0\xcf\x11\xe0", f"a spreadsheet; {SAVE}"),
    (b"\x1f\x8b", "compressed; unpack it with gunzip"),
    (b"BZh", "compressed; unpack it with bunzip2"),
    (b"\xfd7zXZ\x00", "compressed; unpack it with unxz"),
    (b"\x28\xb5\x2f\xfd", "compressed; unpack it with zstd -d"),
    (b"PAR1", "a Parquet file; pandas.read_parquet(...).to_csv(...) makes a CSV file of it"),
    (b"SQLite format 3\x00", f"a database; {SAVE}"),
    (b"\x89PNG", f"a picture; {SAVE}"),
    (b"\xff\xd8\xff", f"a picture; {SAVE}"),
    (b"{\\rtf", f"a text document; {SAVE}"),
)
PAGE = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*<(?:!doctype|html|\?xml)", re.IGNORECASE)
# Bytes that text does not have, but for a stray one, in any encoding but UTF-16 and UTF-32.
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f]")
LOOK_AT, STRAY = 2**17, 0.01
WIDE = (b"\xff\xfe", b"\xfe\xff")  # text in UTF-16 begins so


def what_it_is_instead(content: bytes) -> str:
    """What a file is if not a table, and what to do; "" where nothing speaks against a table."""
    for start, said in SIGNATURES:
        if content.startswith(start):
            return said
    if PAGE.match(content):
        return f"a web page or XML; {SAVE}"
    if content.lstrip()[:1] in (b"[", b"{") and any(map(_is_json, (content, _first_line(content)))):
        return "JSON; pandas.read_json(...).to_csv(...) makes a CSV file of it"
    if content.startswith(WIDE):
        return ""
    start = content[:LOOK_AT]
    found = [*CONTROL.finditer(start)]
    if len(found) <= STRAY * len(start):
        return ""
    line = start.count(b"\n", 0, found[0].start()) + 1
    first = (
        f"the first of many bytes that text does not have is {found[0][0][0]:#04x} in line {line}"
    )
    return f"not text ({first}); {SAVE}, in UTF-8"


def _first_line(content: bytes) -> bytes:
    """An object for each line is a common form of JSON."""
    return content.lstrip().partition(b"\n")[0]


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True
