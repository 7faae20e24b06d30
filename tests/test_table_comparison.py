"""All methods on a person's own table: the same rows, text columns, the units of the table."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import dims
from dims.baselines.compare import read_comparison
from dims.commands import app
from dims.estimators import tables

KINDS = {"size": "number", "side": "category"}
QUICK: dict[str, Any] = {"hidden": (3,), "epochs": 60, "draws": 3, "random_state": 0}


def houses(path: Path, rows: int, target: str = "price") -> tuple[tables.Table, tables.Table]:
    """Rows to learn from and held-out rows of a table with text."""
    draw = random.Random(0)
    lines = [f"size,side,{target}"]
    for _ in range(rows):
        size, side = draw.uniform(30, 150), draw.choice("NESW")
        price = 3000 * size + 90_000 * (side == "S") + draw.gauss(0, 20_000)
        dear = "dear" if price > 300_000 else "cheap"
        lines.append(f"{size:.1f},{side},{f'{price:.0f}' if target == 'price' else dear}")
    path.write_text("\n".join(lines))
    task = "regression" if target == "price" else "classification"
    return tables.read(path, KINDS, target, task).split(0.2)


def pipeline(kind: type, **settings: Any) -> Any:
    return make_pipeline(tables.preparation(KINDS), kind(**QUICK | settings))


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_the_network_has_the_error_that_the_evaluation_finds_in_the_units_of_the_table(tmp_path):
    """It has learned from the same rows and is scored on the same ones."""
    known, held_out = houses(tmp_path / "t.csv", 150)
    given = tables.as_comparison(pipeline(dims.DimsRegressor, noise="constant"), known, held_out)
    assert [len(given[name][0]) for name in ("data", "validation", "test")] == [108, 12, 30]
    methods = ("temperature", "mc_dropout", "last_layer")
    found = dims.compare(**given, methods=methods, draws=3, progress=False)
    fitted = pipeline(dims.DimsRegressor, method="la", noise="constant", refine=False)
    fitted = fitted.fit(known.inputs, known.target)
    own = tables.evaluate(fitted, known, held_out).scores["network alone"]
    assert found["network"].error == pytest.approx(own.errors.tolist())
    assert found.error("network").value > 10_000
    # −log p of a price in the hundred thousands: that of a standardised one is near 0.
    assert found.nll("network").value == pytest.approx(-own.log_scores.mean(), abs=0.3)
    assert "calls no nn.Dropout" in found["mc_dropout"].problem
    assert f"{math.sqrt(own.errors.mean()):,.0f}" in str(found)
    assert "OOD" not in str(found)


@pytest.mark.parametrize(("rows", "parts"), [(60, [38, 10, 12]), (150, [108, 12, 30])])
def test_classes_are_compared_too_and_few_rows_leave_some_to_choose_by(
    tmp_path, capsys, rows, parts
):
    known, held_out = houses(tmp_path / "t.csv", rows, "kind")
    given = tables.as_comparison(pipeline(dims.DimsClassifier), known, held_out)
    assert [len(given[name][0]) for name in ("data", "validation", "test")] == parts
    assert given["target_scale"] == 1
    few = ", which is few" if rows < 150 else ""
    assert capsys.readouterr().out.endswith(
        f"note: {parts[0]} rows to train on, {parts[1]} for the methods to choose by, {parts[2]} "
        f"to score on{few}\n"
    )
    found = dims.compare(**given, methods=("temperature",), progress=False)
    assert 0.5 < found.error("network").value <= 1


@pytest.mark.parametrize(
    ("settings", "sampler"),
    [
        ({}, "dims"),
        ({"method": "la"}, "dims"),
        ({"method": dims.DiMS(friction=0.7)}, dims.DiMS(friction=0.7)),
        ({"friction": 0.5, "max_time": 1.5}, dims.DiMS(0.5, max_time=1.5, save_at=(0.5,))),
    ],
)
def test_draws_are_made_with_the_settings_of_the_estimator(tmp_path, settings, sampler):
    known, held_out = houses(tmp_path / "t.csv", 60)
    given = tables.as_comparison(pipeline(dims.DimsRegressor, **settings), known, held_out)
    assert given["sampler"] == sampler


def test_the_program_is_compared_by_the_command(tmp_path, monkeypatch):
    """Notes about the table stay out of what programs read."""
    monkeypatch.chdir(tmp_path)
    houses(tmp_path / "t.csv", 60)
    assert CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"]).exit_code == 0
    file = Path("mine.py")
    assert "dims compare mine.py:comparison --store" in file.read_text()
    file.write_text(file.read_text().replace("hidden=(16,)", "hidden=(3,)").replace("=300", "=60"))
    how = ("--store", "all", "--methods", "temperature,mc_dropout", "--json", "--quiet")
    done = CliRunner().invoke(app, ["compare", "mine.py:comparison", *how])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith('{"network": ')
    assert "note: 38 rows to train on" in done.stderr
    assert Path("all/comparison.html").exists()
    assert read_comparison("all").error("network").value > 10_000
