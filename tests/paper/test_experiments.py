"""Training, runs on disk, and the verdicts beside the paper's numbers."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dims.commands.pages.read import read_page
from dims.model.training import Training
from dims_paper.cache import kept_run, load_runs
from dims_paper.comparison import beside, cells_table, compare, comparison_table
from dims_paper.experiments import uci
from dims_paper.experiments.problem import Problem
from dims_paper.figures import write_figure
from dims_paper.numbers import select
from dims_paper.schema import Row, Run


def test_a_run_is_made_once_and_never_left_half_written(tmp_path):
    calls = []

    def run():
        calls.append(1)
        return Run(experiment="test", facts={"value": 3})

    path = tmp_path / "deep" / "run.json"
    assert kept_run(path, run).facts["value"] == 3
    assert kept_run(path, run).facts["value"] == 3
    assert calls == [1]
    with pytest.raises(RuntimeError):
        kept_run(tmp_path / "deep" / "broken.json", lambda: (_ for _ in ()).throw(RuntimeError()))
    assert [r.facts["value"] for r in load_runs(tmp_path)] == [3]
    assert [p.name for p in path.parent.iterdir()] == ["run.json"]


def fake_runs(shift: float) -> list[Run]:
    """Two seeds that score the paper's own DiMS numbers on vehicle, moved by a shift."""
    scores = {
        ("brier_sum" if n.metric == "brier" else n.metric): n.mean + shift
        for n in select(table="tab:uci_test", dataset="vehicle", method="DiMS", eta0=0.5)
    }
    both = {"per_sample": scores, "ensemble": scores}
    row = Row(method="DiMS", t1=50.0, eta0=0.5, scores={"test": both, "train": both})
    return [Run(experiment="uci", dataset="vehicle", rows=[row])] * 2


@pytest.mark.parametrize(("shift", "verdict"), [(-20.0, "worse"), (20.0, "better")])
def test_more_per_cent_of_accuracy_is_better(shift, verdict):
    numbers = select(table="tab:banana-classification", method="RLA")
    scores = {n.metric: n.mean + shift * (n.metric == "accuracy_percent") for n in numbers}
    both = {"per_sample": scores, "ensemble": scores}
    row = Row(method="RLA", t1=numbers[0].t1, eta0=numbers[0].eta0, scores={"test": both})
    run = Run(experiment="banana", dataset="banana", rows=[row])
    cells = compare("tab:banana-classification", [run])
    ran = {cell.metric: cell.verdict for cell in cells if cell.verdict != "not run"}
    assert ran.pop("accuracy_percent") == verdict
    assert set(ran.values()) == {"same"}


@pytest.mark.parametrize(
    ("shift", "accuracy", "nll"),
    [(0.0, "same", "same"), (0.3, "better", "worse"), (-0.3, "worse", "better")],
)
def test_verdicts_know_which_direction_is_good(shift, accuracy, nll):
    cells = compare("tab:uci_test", fake_runs(shift), uci.METRIC_NAMES)
    assert len(cells) == 216
    ran = {c.metric: c for c in cells if c.verdict != "not run"}
    assert set(ran) == {"accuracy", "nll", "brier", "ece", "mce", "auroc"}
    assert ran["accuracy"].verdict == accuracy
    assert ran["nll"].verdict == nll
    assert ran["nll"].ours == pytest.approx(ran["nll"].paper + shift)
    assert ran["nll"].seeds == 2
    assert math.isnan(next(c.ours for c in cells if c.method == "LA"))


def test_tables_hold_every_cell(tmp_path):
    cells = compare("tab:uci_test", fake_runs(0.1), uci.METRIC_NAMES)
    cells_table(cells).write_csv(tmp_path / "cells.csv")
    with (tmp_path / "cells.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 216
    assert {line["verdict"] for line in lines} == {"better", "worse", "not run"}
    text = comparison_table(cells, ["accuracy", "nll"]).markdown()
    assert len(text.splitlines()) == 2 + 36
    assert "| vehicle | DiMS (0.5) |" in text


def test_tables_name_the_times_of_one_method():
    numbers = select(table="tab:id-seed1", dataset="mnist", method="DiMS", metric="nll")
    cells = [beside(number, number.mean, math.nan, math.nan, 1) for number in numbers]
    first, second = comparison_table(cells, ["nll"]).markdown().splitlines()[2:]
    assert first.startswith("| mnist | DiMS (0.5), t₁ = ")
    assert {line.split("t₁ = ")[1].split()[0] for line in (first, second)} == {"25", "100"}


@pytest.mark.data
@pytest.mark.usefixtures("unchecked")
def test_the_quick_run_of_the_command_line(tmp_path, monkeypatch):
    from dims.commands import app

    monkeypatch.setattr(uci, "quick", tiny)
    arguments = ["reproduce", "uci", "--dataset", "glass", "--quick", "--out", str(tmp_path / "u")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    run = json.loads((tmp_path / "u_quick" / "glass_0.json").read_text())
    assert [row["method"] for row in run["rows"]][:4] == ["MAP", "LA", "LinLA", "RLA"]
    assert all(0 <= row["test"]["per_sample"]["accuracy"] <= 1 for row in run["rows"])
    assert (
        gradient_norm_again(uci.problem_of("glass", 0, tiny(uci.UciSettings())))
        == (run["gradient_norm"])
    )
    assert "glass" in result.output
    wrong = CliRunner().invoke(app, ["reproduce", "uci", "--dataset", "iris"])
    assert wrong.exit_code == 2
    assert "vehicle" in wrong.output


def gradient_norm_again(problem: Problem) -> float:
    """Of the network that later rows are computed from."""
    return problem.posterior(problem.task.train(problem.seed)).gradient_norm


def tiny(settings: uci.UciSettings) -> uci.UciSettings:
    from dataclasses import replace

    return replace(
        settings,
        training=Training(epochs=3, batch_size=64),
        draws=2,
        seeds=1,
        frictions=(0.5,),
        max_time=0.1,
    )


METHODS = ["MAP", "LA", "LinLA", "RLA", "DiMS", "DiMS settled"]


@pytest.mark.data
@pytest.mark.usefixtures("unchecked")
def test_banana_scores_every_method(tmp_path):
    from dataclasses import replace

    from dims_paper.experiments import banana

    brief = banana.quick(banana.BananaSettings())
    settings = replace(brief, hidden=(4,), training=Training(epochs=3), draws=2, max_time=0.1)
    run = banana.run_banana(settings, tmp_path / "runs")
    assert [row.method for row in run.rows] == METHODS
    scores = run.rows[0].scores["test"]["per_sample"]
    assert scores["accuracy_percent"] == pytest.approx(100 * scores["accuracy"])
    assert gradient_norm_again(banana.problem_of(settings)) == run.facts["gradient_norm"]
    cells = compare("tab:banana-classification", [run], banana.METRIC_NAMES)
    assert {c.method for c in cells if c.verdict != "not run"} == {"MAP", "LA", "LinLA", "RLA"}
    # What the figure and the page need is in the file.
    assert len(run.rows[4].figure["map"]["probability"]) == 48 * 48
    check_files(run, tmp_path, "banana_0.json")
    assert read_page(tmp_path / "runs")["runs"][0]["calibration"]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.usefixtures("unchecked")
def test_snelson_scores_every_method(tmp_path):
    from dataclasses import replace

    from dims_paper.experiments import snelson

    brief = snelson.quick(snelson.SnelsonSettings())
    settings = replace(
        brief, hidden=(4,), training=Training(epochs=200), draws=2, max_time=0.02, rla_time=0.002
    )
    run = snelson.run_snelson(settings, tmp_path / "runs")
    assert [row.method for row in run.rows] == METHODS
    assert all(math.isfinite(row.metric("train", "nll")) for row in run.rows)
    assert gradient_norm_again(snelson.problem_of(settings)) == run.facts["gradient_norm"]
    assert run.rows[0].numbers["spread_gap"] == 0
    assert run.rows[1].numbers["spread_gap"] > 0
    assert [len(movie["curves"]) for movie in run.figure["movies"]] == [11, 11]
    check_files(run, tmp_path, "snelson_ggn_0.json")


def check_files(run: Run, folder: Path, name: str) -> None:
    """The run is in its file, and gives a figure and a page."""
    assert [path.name for path in (folder / "runs").iterdir()] == [name]
    assert write_figure(run, folder / "figure")[0].stat().st_size > 10_000
    page = read_page(folder / "runs")
    assert [entry["id"] for entry in page["tables"]] == ["scores", "draws"]


@pytest.mark.data
def test_data_commands_list_and_check():
    from dims.commands import app

    listed = CliRunner().invoke(app, ["data", "list"])
    assert listed.exit_code == 0
    assert "snelson" in listed.output
    unknown = CliRunner().invoke(app, ["data", "fetch", "nope"])
    assert unknown.exit_code == 1
    assert "snelson" in str(unknown.output) + str(unknown.exception)
