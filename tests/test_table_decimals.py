"""The decimal sign of a table: found with care, kept for new tables, and said where it is open."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import dims
from dims.commands import app
from dims.errors import TableWarning
from dims.estimators import tables

GERMAN = tables.Format(";", ",", "utf-8")
KINDS = {"km": "number", "a": "number"}


def new(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "new.csv"
    path.write_bytes(text.encode(encoding))
    return path


def numbers(path: Path, format: tables.Format | None = GERMAN) -> list[list[float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return tables.read_inputs(path, KINDS, format).inputs.to_numpy().tolist()


def test_a_new_table_has_the_decimal_sign_of_the_one_that_was_learned_from(tmp_path):
    """It was guessed afresh, and thousands became decimals."""
    assert numbers(new(tmp_path, "km;a\n5.985;2\n625;-1\n")) == [[5985, 2], [625, -1]]
    assert numbers(new(tmp_path, "km;a\n5,985;2\n"), tables.Format(";")) == [[5985, 2]]
    assert numbers(new(tmp_path, "km;a\n5,985;2\n")) == [[5.985, 2]]


def test_separator_and_encoding_of_a_new_table_may_differ(tmp_path):
    assert numbers(new(tmp_path, 'km,a\n5.985,"2,5"\n')) == [[5985, 2.5]]
    assert numbers(new(tmp_path, "km\ta\n5.985\t2,5\n", "utf-16")) == [[5985, 2.5]]


@pytest.mark.parametrize(
    ("text", "usual", "found"),
    [
        # Separators that fit alike, and encodings of the same bytes.
        ("km, all;a\n1,5;2\n", GERMAN, ";"),
        ("km, all;a\n1,5;2\n", tables.Format(), ","),
        ("km;a\n1;2\n", tables.Format(";", ",", "utf-8-sig"), "utf-8-sig"),
        ("km;ä\n1;2\n", tables.Format(";", ",", "latin-1"), "latin-1"),
        ("km;a\n1;2\n", tables.Format(";", ",", "utf-16"), "utf-8"),
        ("km;ä\n1;2\n", tables.Format(";", ",", "utf-16"), "cp1252"),
    ],
)
def test_what_a_new_table_leaves_open_is_as_usual(tmp_path, text, usual, found):
    made = tables.read_text(new(tmp_path, text, "latin-1"), usual=usual)
    assert found in (made.format.separator, made.format.encoding)


def test_cells_that_refute_the_decimal_sign_change_it_and_are_named(tmp_path):
    path = new(tmp_path, "km,a\n5985,2\n-9.5,-2.25\n0.716,1\n17,0.125\n3,1.125\n")
    said = (
        r"new\.csv: the decimal sign is ',' by FORMAT, but '\.' in line 3, column 'a': '-2\.25'; "
        r"line 3, column 'km': '-9\.5'; line 4, column 'km': '0\.716'; and 1 more: all "
        r"numbers of this file are read with '\.', so '1\.125' in line 6 is 1\.125, not 1125"
    )
    with pytest.warns(TableWarning, match=said):
        table = tables.read_inputs(path, KINDS, GERMAN)
    assert table.inputs["km"].tolist() == [5985, -9.5, 0.716, 17, 3]
    assert table.inputs["a"].tolist() == [2, -2.25, 1, 0.125, 1.125]


def test_a_stray_decimal_sign_changes_no_other_cell(tmp_path):
    path = new(tmp_path, "km;a\n5.985;2,5\n1;-2.5\n3;1,5\n4;2\n5;1\n")
    with pytest.warns(TableWarning, match="line 3, column 'a': '-2.5': other cells have ',', so"):
        table = tables.read_inputs(path, KINDS, GERMAN)
    assert table.inputs["km"].tolist() == [5985, 1, 3, 4, 5]
    assert table.inputs["a"].isna().tolist() == [False, True, False, False, False]


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_predictions_are_written_as_the_table_that_was_learned_from(tmp_path):
    path = tmp_path / "t.csv"
    random = np.random.RandomState(0)
    lines = [f"{x:.2f};{3 * x:.2f}".replace(".", ",") for x in random.rand(60)]
    path.write_text("\n".join(["x;y", *lines]))
    known = tables.read(path, {"x": "number"}, "y", "regression")
    network = dims.DimsRegressor(hidden=(3,), epochs=40, draws=2, method="la", refine=False)
    model = make_pipeline(tables.preparation({"x": "number"}), network.set_params(random_state=0))
    model.fit(known.inputs, known.target)
    file = new(tmp_path, "x,name\n1,Ł\n0,ö\n")
    table = tables.read_inputs(file, {"x": "number"}, known.format)
    made = tables.predict_file(model, table, file, "y", known)
    found = pd.read_csv(made, sep=";", decimal=",")
    assert found["predicted y"].dtype == float
    assert found["name"].tolist() == ["Ł", "ö"]


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        # No group of thousands begins with 0.
        ("x;y\n2,801;1,5\n0,716;2\n", [2.801, 0.716], None),
        ("x;y\n2,801;1\n0,716;2\n", [2.801, 0.716], None),
        ("x;y\n2,801;1\n-0,716;2\n", [2.801, -0.716], None),
        # All is open.
        ("x;y\n2,107;1\n3,114;2\n", [2.107, 3.114], "'2,107' is taken as 2.107; with decimal='.'"),
        ("x;y\n2.107;1\n3.114;2\n", [2107, 3114], "'2.107' is taken as 2107; with decimal='.' in"),
        ("x\ty\n2.107\t1\n3.114\t2\n", [2.107, 3.114], "with decimal=',' in FORMAT it is 2107"),
        ('x,y\n"2,107",1\n"3,114",2\n', [2107, 3114], "'2,107' is taken as 2107; with decimal=','"),
        # Nothing is.
        ("x,y\n2.107,1\n3.114,2\n", [2.107, 3.114], None),
        ("x;y\n1.234.567;1\n3.114;2\n", [1234567, 3114], None),
        ("x;y\n2.107;1,5\n3.114;2\n", [2107, 3114], None),
        ("x;y\n75,125 m²;1\n3,5 m²;2\n", [75.125, 3.5], None),
    ],
)
def test_the_decimal_sign_of_a_table_is_said_where_it_is_open(tmp_path, text, values, said):
    table = tables.read_text(new(tmp_path, text))
    bare = table.cells["x"].str.removesuffix(" m²")
    assert tables.cells.parse_numbers(bare, table.format.decimal).tolist() == values
    sentence = tables.other_decimal_sign(table)
    assert (said or "") in sentence
    assert bool(sentence) == (said is not None)


def test_init_says_that_the_decimal_sign_is_open(tmp_path, monkeypatch):
    """And FORMAT, once it is mended, counts for new tables too."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{1 + i % 7},{100 + i:03};{i}" for i in range(30)]
    Path("t.csv").write_text("\n".join(["x;y", *lines]))
    made = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"])
    said = "decimal sign: taken as ',', but '.' fits too: '1,100' is taken as 1.1; with decimal"
    assert f"\n{said}='.' in FORMAT it is 1100\n" in made.stdout
    program = Path("mine.py").read_text()
    assert f"\n# {said}" in program
    assert "read_inputs(path, COLUMNS, FORMAT)" in program
    path = new(tmp_path, "km;a\n1,101;2\n")
    assert numbers(path, tables.Format(";", ".")) == [[1101, 2]]
