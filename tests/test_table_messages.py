"""What is said of a table that cannot be read as its settings say: the cause, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from dims.errors import TableError
from dims.estimators import tables

KINDS = {"size": "number", "side": "category"}


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "t.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_all_columns_that_are_not_there_are_named(tmp_path):
    path = written(tmp_path, "a,b\n1,2\n")
    with pytest.raises(TableError, match=r"t\.csv has no columns 'size', 'side'; there are a, b"):
        tables.read_inputs(path, KINDS)
    path = written(tmp_path, "a,size\n1,2\n")
    with pytest.raises(TableError, match=r"t\.csv has no column 'side'; there are a, size"):
        tables.read_inputs(path, KINDS)


def test_a_wrong_encoding_is_named_with_a_line_and_a_better_one(tmp_path):
    path = written(tmp_path, "size,side\n1,N\n2,Süd\n", "latin-1")
    said = r't\.csv is not text in utf-8: line 3 has the byte 0xfc; set encoding="cp1252" in FORMAT'
    with pytest.raises(TableError, match=said):
        tables.read_text(path, tables.Format())
    assert tables.read_text(path, tables.Format(encoding="cp1252")).cells["side"][1] == "Süd"
