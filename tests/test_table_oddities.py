"""Rows unlike those that were learned from have a note, and the terminal says what is wrong."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import dims
from dims.errors import TableWarning
from dims.estimators import tables
from dims.estimators.tables.naming import lines_named, none_of
from dims.estimators.tables.oddities import warn_beyond

KINDS = {"s": "number", "vip": "number", "side": "category"}
FEW = "was hardly learned from (3 training rows)"


def read(folder: Path, rows: list[str], name: str = "new.csv") -> tables.Table:
    path = folder / name
    path.write_text("\n".join(["s,vip,side", *rows]))
    return tables.read_inputs(path, KINDS)


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> tuple[Any, tables.Table]:
    """Sixty rows with s from 0 to 2.95; three of them are vip, and three in the south."""
    path = tmp_path_factory.mktemp("learned") / "t.csv"
    rows = [f"{i / 20},{int(i % 20 == 1)},{'S' if i % 20 == 2 else 'N'},{i}.5" for i in range(60)]
    path.write_text("\n".join(["s,vip,side,y", *rows]))
    known = tables.read(path, KINDS, "y", "regression")
    network = dims.DimsRegressor(
        hidden=(3,), epochs=40, draws=2, method="la", refine=False, random_state=0
    )
    model = make_pipeline(tables.preparation(KINDS), network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dims.DimsWarning)
        return model.fit(known.inputs, known.target), known


def predicted(folder: Path, learned: tuple[Any, tables.Table], rows: list[str]) -> list[str]:
    """The notes of the rows."""
    model, known = learned
    path = tables.predict_file(model, read(folder, rows), folder / "new.csv", "y", known)
    return pd.read_csv(path)["note"].fillna("").tolist()


def test_hardly_seen_values_have_a_note(tmp_path, learned):
    assert predicted(tmp_path, learned, ["1,1,N", "1,0,S", "1,0,N"]) == [
        f"vip '1' {FEW}",
        f"side 'S' {FEW}",
        "",
    ]


def test_absurd_values_are_named_by_line(tmp_path, learned):
    """The answer there looked as sure as any."""
    rows = ["1,0,N", "1e9,0,N", "9,0,N", *["1,0,N"] * 3]
    said = (
        "line 3, column 's': '1e9' is far beyond all training rows (0 to 2.95); answers there are "
        "not to be trusted: correct such a cell, or leave it empty"
    )
    with pytest.warns(TableWarning) as warned:
        notes = predicted(tmp_path, learned, rows)
    assert [str(each.message) for each in warned] == [said]
    assert notes[:3] == [
        "",
        "s is far above all training rows (2.95), do not trust this answer",
        "s is above all training rows (2.95)",
    ]


def test_most_rows_outside_of_the_training_rows_are_loudly_warned_about(tmp_path, learned):
    """As where the decimal sign is another one."""
    said = (
        r"column 's': 2 of 3 rows are outside of all training rows \(0 to 2\.95\), as '3\.5' in "
        r"line 2; answers there are guesses: have both tables the same unit and decimal sign\?"
    )
    with pytest.warns(TableWarning, match=said):
        predicted(tmp_path, learned, ["3.5,0,N", "4.5,0,N", "1,0,N"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted(tmp_path, learned, ["3.5,0,N", "1,0,N", "1,0,N"])


def test_columns_of_one_value_have_no_range(tmp_path):
    one = read(tmp_path, ["1,0,N"] * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_beyond(one, read(tmp_path, ["1,1,N", "1,0,N", "1,0,N"]))


def test_the_terminal_groups_notes_by_column_and_reason(tmp_path, learned, capsys):
    rows = [*[",0,N"] * 8, "old,0,N", "1,0,Q", "1,0,M", "1,0,Q", *["1,1,N"] * 3]
    predicted(tmp_path, learned, rows)
    averages = "the rows that were learned from; its prediction averages over what they have"
    assert capsys.readouterr().out.splitlines() == [
        "note: line 10, column 's': 'old' is not a number; taken as missing",
        f"note: lines 2, 3, 4, 5, 6 and 4 more, column 's': missing, as in none of {averages}",
        f"note: lines 11, 12, 13, column 'side': none of 'Q', 'M' was in {averages}",
        f"note: 15 of 15 rows have a note in the file: s is missing in 8; vip {FEW} in 3; "
        "side was not learned from in 3; and 1 more reason",
    ]


def test_lines_and_cells_are_cut():
    assert lines_named(np.array([3])) == "line 3"
    assert lines_named(np.arange(2, 9)) == "lines 2, 3, 4, 5, 6 and 2 more"
    assert none_of(["x", "x"], "is") == "'x' is not"
    assert none_of("abcdefg", "was") == "none of 'a', 'b', 'c', 'd', 'e', … was"
