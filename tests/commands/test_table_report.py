"""The report of a table: held-out rows, and the names of its columns."""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import dims
from dims.commands import app
from dims.commands.pages.html import page_html
from dims.commands.pages.read import read_page
from dims.estimators import tables

FLATS = ["size,side,price"]
FLATS += [f"{'' if i % 5 < 2 else 30 + 7 * i % 90},{'NS'[i % 2]},{3 * i % 50}.5" for i in range(40)]
FEELINGS = ["a,kind", *(f"{i % 9}.5,{('up', 'down', 'flat')[i % 3]}" for i in range(40))]


def sampled(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, lines: list[str]) -> dict:
    """The page of a run of the written program, made small."""
    monkeypatch.chdir(folder)
    Path("t.csv").write_text("\n".join(lines))
    file = Path(f"{name}.py")
    assert CliRunner().invoke(app, ["init", str(file), "--csv", "t.csv"]).exit_code == 0
    text = file.read_text().replace("hidden=(16,)", "hidden=(3,)").replace("=300", "=60")
    file.write_text(text)
    how = ("--method", "la", "--draws", "3", "--quiet", "--store", "run")
    how += ("--curvature", "diagonal")  # the fastest
    done = CliRunner().invoke(app, ["sample", f"{file}:problem", *how])
    assert done.exit_code == 0, done.output
    return read_page(folder / "run")


def labels(page: dict) -> list[str]:
    table = next(table for table in page["tables"] if table["id"] == "disagreement")
    return [column["label"] for column in table["columns"][5:]]


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_numbers_have_calibration_residuals_and_names(tmp_path, monkeypatch):
    """All numbers are those of the table, and so are the names."""
    page = sampled(tmp_path, monkeypatch, "flats_run", FLATS)
    run = page["runs"][0]
    assert len(run["residuals"][0]["x"]) == 8
    assert [entry["method"] for entry in run["calibration"]] == ["LA", "network alone"]
    assert any(table["id"] == "held-out" for table in page["tables"])
    assert labels(page) == ["size", "size missing", "side_N", "side_S"]
    plain = page_html(page).split("<noscript>")[1].split("</noscript>")[0]
    assert html.escape(page["verdict"][0]) in plain
    assert "<td>network alone</td>" in plain  # of the scores
    shown = next(table for table in page["tables"] if table["id"] == "disagreement")["rows"]
    target = dict(page["facts"])["target"]
    assert target.startswith("price; the network learns (price − ")
    assert run["residuals"][0]["axis"] == "predicted price"
    known, held = sys.modules["flats_run"].data()
    sizes = held.inputs["size"].fillna(known.inputs["size"].median())
    places = {line: place for place, line in enumerate(held.lines)}  # rows have the file's lines
    for row in shown:
        assert row[4] == pytest.approx(held.target[places[row[0]]])
        assert 0 < row[2] < 60
        assert row[5] == pytest.approx(sizes.iloc[places[row[0]]])
    scores = next(table for table in page["tables"] if table["id"] == "held-out")
    *_, constant = scores["rows"]
    assert constant[0] == "mean of the training targets"
    rmse = np.sqrt(np.mean((held.target - known.target.mean()) ** 2))
    assert constant[[column["label"] for column in scores["columns"]].index("RMSE")] == (
        pytest.approx(rmse, rel=1e-3)
    )


DIRTY = ["id,size,vip,kind", *(f"L{i},{i % 9}.5,{i // 38},{'ab'[i % 2]}" for i in range(40))]
DIRTY[3], DIRTY[7] = "L2,two,0,a", "L6,,0,"


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_what_was_odd_in_the_file_is_on_the_page(tmp_path, monkeypatch, capsys):
    """The notes of the program, and the columns that `dims init` has left out."""
    page = sampled(tmp_path, monkeypatch, "dirty_run", DIRTY)
    kept = json.loads((tmp_path / "run" / "predictions.json").read_text())
    assert page["table_notes"] == kept["table_notes"]
    capsys.readouterr()
    module = sys.modules["dirty_run"]
    tables.print_notes(module.model(), module.data()[0])
    printed = [line.removeprefix("note: ") for line in capsys.readouterr().out.splitlines()]
    assert page["table_notes"] == [*printed, "columns that are left out: 'id'"]
    assert printed[0] == "1 row without 'kind' left out"
    assert printed[1] == "line 4, column 'size': 'two' is not a number; taken as missing"
    assert printed[3].startswith("column 'vip': only ")


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_classes_have_their_labels(tmp_path, monkeypatch):
    page = sampled(tmp_path, monkeypatch, "feelings_run", FEELINGS)
    run = page["runs"][0]
    assert run["classes"]["labels"] == ["down", "flat", "up"]
    assert sum(map(sum, run["classes"]["counts"])) == 8
    assert run["calibration"]
    shown = next(table for table in page["tables"] if table["id"] == "disagreement")["rows"]
    held = sys.modules["feelings_run"].data()[1]
    places = {line: place for place, line in enumerate(held.lines)}
    assert [row[4] for row in shown] == [held.target[places[row[0]]] for row in shown]
    assert {row[2] for row in shown} <= {"down", "flat", "up"}
    *_, constant = next(table for table in page["tables"] if table["id"] == "held-out")["rows"]
    assert constant[0] == "class frequencies"


def test_rows_for_the_network_must_have_labels_that_it_knows():
    x = np.linspace(-1, 1, 12)[:, None]
    model = dims.DimsClassifier(hidden=(2,), epochs=1, random_state=0)
    model.train(x, np.where(x[:, 0] > 0, "up", "down"))
    inputs, labels = model.rows_for_network(x[:2], ["up", "down"])
    assert torch.equal(inputs, torch.tensor(x[:2]))
    assert labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="'left' was not in the rows that were trained on"):
        model.rows_for_network(x[:1], ["left"])


def test_rows_keep_the_name_of_their_target(tmp_path):
    lines = [f"{i % 7}.5,{i}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["size,price", *lines]))
    table = tables.read(tmp_path / "t.csv", {"size": "number"}, "price", "regression")
    known, held_out = table.split(0.2)
    names = {each.target_name for each in (table, known, held_out, known.with_rows(held_out))}
    assert names == {"price"}
