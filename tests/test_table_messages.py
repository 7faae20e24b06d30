"""What is said of a table that cannot be read as its settings say: the cause, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dims.commands import app
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


@pytest.mark.parametrize(
    ("decimal", "cells", "said"),
    [
        (
            ",",
            ["101.2", "130.8"],
            "lines 3, 4, column 'x': none of '101.2', '130.8' is a number in m² "
            "(they have a decimal point, and this file has decimal commas); taken as missing",
        ),
        (
            ".",
            ["101,2", "large"],
            "lines 3, 4, column 'x': none of '101,2', 'large' is a number in m² "
            "(some have a decimal comma, and this file has decimal points); taken as missing",
        ),
        (
            ".",
            ["101,2", "101,2"],
            "lines 3, 4, column 'x': '101,2' is not a number in m² "
            "(it has a decimal comma, and this file has decimal points); taken as missing",
        ),
        (
            ".",
            ["large", "3"],
            "line 3, column 'x': 'large' is not a number in m²; taken as missing",
        ),
    ],
)
def test_numbers_with_the_other_decimal_sign_are_said_to_have_it(tmp_path, decimal, cells, said):
    lines = ["1 m²", *cells, *(f"{i}{decimal}5 m²" for i in range(20))]
    path = written(tmp_path, "\n".join(["x;y", *(f"{cell};{i}" for i, cell in enumerate(lines))]))
    format = tables.Format(";", decimal)
    assert tables.read(path, {"x": "number m²"}, "y", "regression", format).notes == [said]


def test_a_wrong_decimal_sign_is_asked_about(tmp_path):
    path = written(tmp_path, "\n".join(["x;y", *(f"{i};{i},50 €" for i in range(20))]))
    read = {"target": "y", "task": "regression", "format": tables.Format(";", ".")}
    said = (
        r"0 rows of .*t\.csv have a 'y' that can be used; at least 10 are needed; line 2 has "
        r"'0,50 €', which is not a number with decimal='\.' in FORMAT: is it ','\?"
    )
    with pytest.raises(TableError, match=said):
        tables.read(path, {"x": "number"}, **read)
    path = written(tmp_path, "\n".join(["x;y", *(f"{i},50;{i}" for i in range(20))]))
    said = r"as '0,50' \(it has a decimal comma, and this file has decimal points\)"
    with pytest.raises(TableError, match=said):
        tables.read(path, {"x": "number"}, **read)


def test_classes_that_are_to_be_numbers_are_told_with_the_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "\n".join(["x,y", *(f"{i}.5,{'ab'[i % 2]}" for i in range(20))]))
    options = ["init", "mine.py", "--csv", "t.csv", "--task", "regression"]
    said = CliRunner().invoke(app, options).stderr
    assert said.endswith(
        "line 2 has 'a', which is not a number; give --task \"classification\" for classes\n"
    )


def test_one_is_not_many(tmp_path):
    lines = [f"{'' if i == 3 else i},{'' if i == 5 else i % 7}" for i in range(30)]
    path = written(tmp_path, "\n".join(["a,y", *lines]))
    columns = {"a": "number"}
    table = tables.read(path, columns, "y", "regression")
    assert table.notes[-1] == "1 row without 'y' left out"
    (said,) = tables.decisions(tables.preparation(columns), table)
    assert said.startswith("column 'a': 1 of 29 cells is missing; ")
    path = written(tmp_path, "\n".join(["a,y", *lines]).replace("7,", "x,", 1))
    assert (
        ", 1 of 28 cells is no number, "
        in tables.choose_columns(tables.read_text(path), "y")["a"].why
    )
