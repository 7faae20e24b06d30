"""Files that are no tables: one line says what is wrong, where, and what to do; exit code 2."""

from __future__ import annotations

import gzip
import json
import random
import runpy
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dims
from dims.commands import app
from dims.errors import TableError
from dims.estimators import tables

NOISE = random.Random(0).randbytes(3000)
ONE = "put one of , ; | or a tab between names, and between cells"
EMPTY = "is empty; a table has a line of names and a line for each row"
FILES = {
    "empty": (b"", EMPTY),
    "blank": (b" \r\n\t\n", EMPTY),
    "mark of UTF-8": (b"\xef\xbb\xbf", EMPTY),
    "mark of UTF-16": (b"\xff\xfe\n", EMPTY),
    "PDF": (b"%PDF-1.5\r%\xe2\xe3\xcf\xd3\r\n1, 2\n" + NOISE, "it is a PDF; save the table in it"),
    "spreadsheet": (b"PK\x03\x04" + NOISE, "it is a spreadsheet or a zip file; save the table"),
    "old spreadsheet": (b"\xd0\xcf\x11\xe0" + NOISE, "it is a spreadsheet; save the table"),
    "compressed": (
        gzip.compress(b"size,side\n1,N\n" * 9),
        "it is compressed; unpack it with gunzip",
    ),
    "picture": (b"\x89PNG\r\n\x1a\n" + NOISE, "it is a picture; save the table"),
    "Parquet": (b"PAR1" + NOISE, "it is a Parquet file; pandas.read_parquet(...).to_csv(...)"),
    "page": (b"\n<!DOCTYPE html>\n<html>a,b\n</html>", "it is a web page or XML; save the table"),
    "JSON": (json.dumps([{"size": 3, "side": "N"}] * 2).encode(), "it is JSON; pandas.read_json"),
    "lines of JSON": (b'{"size": 3, "side": "N"}\n' * 3, "it is JSON; pandas.read_json"),
    "binary": (b"size,side\n" + NOISE, "is 0x07 in line 2); save the table in it as a CSV file"),
    "zeros": (bytes(100), "is 0x00 in line 1); save the table"),
    "other separator": (b"size~side~price\n" + b"1~N~2\n" * 20, ONE),
    "ragged": (
        b"size,side,price\n1,2,3\n1,2,3,4\n",
        "line 3 has 4 cells, and the first line 3; put",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_init_refuses_a_wrong_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, said = FILES[name]
    Path("t.csv").write_bytes(content)
    done = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert "t.csv" in done.stderr
    assert said in done.stderr
    assert not Path("mine.py").exists()


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """Of a table with two columns to learn from; it must not come to learning."""
    folder = tmp_path_factory.mktemp("program")
    rows = [f"{30 + 7 * i % 90}.5,{'NS'[i % 2]},{3 * i % 50}.5" for i in range(40)]
    (folder / "t.csv").write_text("\n".join(["size,side,price", *rows]))
    made = CliRunner().invoke(
        app, ["init", str(folder / "mine.py"), "--csv", str(folder / "t.csv")]
    )
    assert made.exit_code == 0, made.output
    assert "40 rows are few" in made.stdout
    return folder / "mine.py"


@pytest.mark.parametrize("name", [*FILES, "one column", "no rows"])
def test_the_program_refuses_a_wrong_new_file(tmp_path, monkeypatch, capsys, program, name):
    more = {
        "one column": (b"size\n3\n", f"no column 'side'; there is one column only, 'size'; {ONE}"),
        "no rows": (b"size,side\n", "has names of columns, and no rows; write a line for each row"),
    }
    content, said = (FILES | more)[name]
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["mine.py", "new.csv"])
    monkeypatch.setattr(dims.DimsRegressor, "fit", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(program), run_name="__main__")
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    assert "new.csv" in told
    assert said in told


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("size\n3\n4\n", [3, 4]), ("size\n3,5\n4,25\n", [3.5, 4.25]), ("size\n3.5\n\n4\n", [3.5, 4])],
)
def test_one_column_is_enough_where_one_is_needed(tmp_path, text, sizes):
    """Its numbers may have decimal commas, which separate nothing then."""
    path = tmp_path / "new.csv"
    path.write_text(text)
    table = tables.read_inputs(path, {"id": "leave out", "size": "number"})
    assert table.inputs["size"].tolist() == sizes


def test_a_stray_byte_is_no_reason_to_refuse_a_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 30 + b"3,\x00\n")
    assert len(tables.read_text(path).cells) == 31


def test_a_separator_that_is_not_that_of_the_program_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "1;2\n" * 20)
    with pytest.raises(TableError, match="one column, 'a;b'; FORMAT says that ',' separates them"):
        tables.read(path, {"a": "number"}, "b", "regression", tables.Format())


@pytest.mark.parametrize(("rows", "few"), [(59, True), (60, False)])
def test_init_says_where_rows_are_few(tmp_path, monkeypatch, rows, few):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("\n".join(["a,b", *(f"{i}.5,{i}.25" for i in range(rows))]))
    done = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"])
    said = f"{rows} rows are few: ask by cross-validation whether a linear model or a Gaussian"
    assert (said in done.stdout) == few
    assert ("better: python mine.py --cross-validate" in done.stdout) == few
