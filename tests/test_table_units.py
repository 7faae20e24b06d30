"""Numbers that are followed by a unit are numbers, as long as it is one and the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dims.commands import app
from dims.errors import TableWarning
from dims.estimators import tables
from dims.estimators.tables.cells import split_unit


def file(folder: Path, cells: list[str], name: str = "t.csv") -> Path:
    path = folder / name
    rows = [f"{cell};{i}.000;{i},5" for i, cell in enumerate(cells, start=7)]
    path.write_text("\n".join(["a;b;y", *rows]))
    return path


def column(folder: Path, cells: list[str]) -> tables.Column:
    return tables.choose_columns(tables.read_text(file(folder, cells)), "y")["a"]


AREAS = [f"{20 + i},{i % 10} m²" for i in range(40)]


def test_a_common_unit_is_said_and_ignored(tmp_path):
    """Such a column was left out as text."""
    found = column(tmp_path, AREAS)
    assert found == tables.Column("number m²", "from 20 to 59.9, in m²")
    table = tables.read(tmp_path / "t.csv", {"a": "number m²"}, "y", "regression")
    assert table.inputs["a"].tolist() == [20 + i + i % 10 / 10 for i in range(40)]
    assert table.notes == []


def test_other_units_are_bad_cells_and_bare_numbers_are_not(tmp_path):
    cells = ["5 g", "3 ha", "", "17", *AREAS[4:]]
    assert column(tmp_path, cells) == tables.Column(
        "number m²",
        "from 17 to 59.9, in m², 1 of 39 without the unit, 2 of 39 cells are not such numbers, "
        "1 missing",
    )
    table = tables.read(tmp_path / "t.csv", {"a": "number m²"}, "y", "regression")
    assert table.inputs["a"].isna().sum() == 3
    assert table.inputs["a"][3] == 17
    assert table.notes == [
        "lines 2, 3, column 'a': none of '5 g', '3 ha' is a number in m²; taken as missing"
    ]
    new = file(tmp_path, ["5 g", "7"], "new.csv")
    with pytest.warns(TableWarning, match="'a' is a 'number m²', but 1 of 2 cells of"):
        assert tables.read_inputs(new, {"a": "number m²"}, table.format).inputs["a"][1] == 7


@pytest.mark.parametrize("count", [8, 40])
def test_different_units_are_not_compared_and_named(tmp_path, count):
    cells = [f"{1 + i % count} {('kg', 'kg', 'g')[i % 3]}" for i in range(40)]
    found = column(tmp_path, cells)
    assert found.kind in ("category", "leave out")
    assert "; numbers followed by different units: kg (27), g (13); convert them" in found.why


@pytest.mark.parametrize(
    "cells",
    [
        [f"{i} {chr(97 + i % 26) * 3} street" for i in range(40)],  # addresses
        ["yes", "no"] * 20,
        ["1", "2", "3", "4", "5+"] * 8,
        [f"note {i}" for i in range(40)],
    ],
)
def test_other_text_has_no_units(tmp_path, cells):
    assert "unit" not in column(tmp_path, cells).why


@pytest.mark.parametrize(
    ("cell", "parts"),
    [
        ("75,0 m²", ("75,0", "m²")),
        ("12kg", ("12", "kg")),
        ("-3.5 °C", ("-3.5", "°C")),
        ("1 250 km/h", ("1 250", "km/h")),
        ("80 m2", ("80", "m2")),
        ("9,5 €/m²", ("9,5 €/m²", "")),
        ("3 Jan 2020", ("3 Jan 2020", "")),
        ("1e5", ("1e5", "")),
        ("5+", ("5+", "")),
        ("kg 5", ("kg 5", "")),
    ],
)
def test_a_unit_is_split_off(cell, parts):
    assert split_unit(cell) == parts


def test_a_target_may_have_a_unit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i * 7 % 31},{300 + i * 7 % 31 + i / 40:.2f} EUR" for i in range(40)]
    rows[3] = "5,2 kg"
    Path("t.csv").write_text("\n".join(["x,price", *rows]))
    made = CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"])
    assert "price  regression target  numbers from 300 to 330.55 EUR" in made.stdout
    assert "line 5, column 'price': '2 kg' is not a number in EUR; left out" in made.stdout
    table = tables.read("t.csv", {"x": "number"}, "price", "regression")
    assert len(table) == 39
    assert table.target.max() < 331


def test_a_stray_unit_among_bare_numbers_is_no_common_one(tmp_path):
    cells = [f"{i}" for i in range(39)] + ["500 g"]
    path = file(tmp_path, cells)
    assert column(tmp_path, cells).kind == "number"
    path.write_text(path.read_text().replace("46,5", "46,5 kg"))
    table = tables.read(path, {"a": "number"}, "y", "regression")
    assert len(table) == 39
    assert table.inputs["a"].tolist() == list(range(39))
