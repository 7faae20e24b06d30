"""Training, runs on disk, and the verdicts beside the paper's numbers."""

from __future__ import annotations

import csv
import json
import math

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from dims.commands.pages.read import read_page
from dims.model.training import Training, perceptron, train
from dims_paper.cache import kept_run, load_runs
from dims_paper.comparison import beside, cells_table, compare, comparison_table
from dims_paper.experiments import uci
from dims_paper.experiments.problem import Problem
from dims_paper.figures import write_figure
from dims_paper.numbers import select
from dims_paper.schema import Row, Run


def test_an_mlp_has_the_widths_asked_for_and_no_dropout_before_its_output():
    model = perceptron((3, 5, 4, 2), nn.SiLU, dropout=0.5)
    assert [(m.in_features, m.out_features) for m in model if isinstance(m, nn.Linear)] == [
        (3, 5),
        (5, 4),
        (4, 2),
    ]
    assert sum(isinstance(m, nn.Dropout) for m in model) == 2
    assert isinstance(model[-1], nn.Linear)
    assert model[0].weight.dtype == torch.float64


def test_training_is_adam_by_hand_and_leaves_the_generators_alone():
    inputs = torch.randn(10, 2, dtype=torch.float64)
    targets = inputs.sum(1, keepdim=True)

    def network() -> nn.Module:
        model = nn.Linear(2, 1).double()
        nn.init.constant_(model.weight, 0.3)
        nn.init.zeros_(model.bias)
        return model

    loss = nn.functional.mse_loss
    model = network()
    before = torch.get_rng_state()
    train(model, inputs, targets, loss, Training(20, learning_rate=0.1), seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    other = network()
    optimiser = torch.optim.Adam(other.parameters(), lr=0.1, weight_decay=1e-2)
    for _ in range(20):
        optimiser.zero_grad()
        loss(other(inputs), targets).backward()
        optimiser.step()
    torch.testing.assert_close(model.weight, other.weight, rtol=0, atol=0)


def test_batches_cover_every_point_of_an_epoch():
    seen = []

    class Spy(nn.Linear):
        def forward(self, x):
            seen.append(x[:, 0].tolist())
            return super().forward(x)

    inputs = torch.arange(7.0, dtype=torch.float64).unsqueeze(-1)
    training = Training(epochs=2, batch_size=3)
    train(Spy(1, 1).double(), inputs, inputs, nn.functional.mse_loss, training, seed=1)
    assert [len(batch) for batch in seen] == [3, 3, 1] * 2
    epochs = [[x for batch in part for x in batch] for part in (seen[:3], seen[3:])]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert epochs[0] != epochs[1]


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


@pytest.mark.data
@pytest.mark.usefixtures("unchecked")
def test_banana_and_snelson_score_every_method(tmp_path):
    from dataclasses import replace

    from dims_paper.experiments import banana, snelson

    brief = banana.quick(banana.BananaSettings())
    settings = replace(brief, hidden=(4,), training=Training(epochs=3), draws=2, max_time=0.1)
    run = banana.run_banana(settings, tmp_path / "runs")
    names = ["MAP", "LA", "LinLA", "RLA", "DiMS", "DiMS settled"]
    assert [row.method for row in run.rows] == names
    scores = run.rows[0].scores["test"]["per_sample"]
    assert scores["accuracy_percent"] == pytest.approx(100 * scores["accuracy"])
    assert gradient_norm_again(banana.problem_of(settings)) == run.facts["gradient_norm"]
    cells = compare("tab:banana-classification", [run], banana.METRIC_NAMES)
    assert {c.method for c in cells if c.verdict != "not run"} == {"MAP", "LA", "LinLA", "RLA"}

    brief = snelson.quick(snelson.SnelsonSettings())
    settings = replace(
        brief, hidden=(4,), training=Training(epochs=200), draws=2, max_time=0.02, rla_time=0.002
    )
    maps = run
    run = snelson.run_snelson(settings, tmp_path / "runs")
    assert [row.method for row in run.rows] == names
    assert all(math.isfinite(row.metric("train", "nll")) for row in run.rows)
    assert gradient_norm_again(snelson.problem_of(settings)) == run.facts["gradient_norm"]
    assert run.rows[0].numbers["spread_gap"] == 0
    assert run.rows[1].numbers["spread_gap"] > 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "banana_0.json",
        "snelson_ggn_0.json",
    ]
    # What the figures and the page need is in the files.
    assert len(maps.rows[4].figure["map"]["probability"]) == 48 * 48
    assert [len(movie["curves"]) for movie in run.figure["movies"]] == [11, 11]
    for result in (maps, run):
        assert write_figure(result, tmp_path / "figure")[0].stat().st_size > 10_000
    page = read_page(tmp_path / "runs")
    assert [entry["id"] for entry in page["tables"]] == ["scores", "draws"]
    assert page["runs"][0]["calibration"]


@pytest.mark.data
def test_data_commands_list_and_check():
    from dims.commands import app

    listed = CliRunner().invoke(app, ["data", "list"])
    assert listed.exit_code == 0
    assert "snelson" in listed.output
    unknown = CliRunner().invoke(app, ["data", "fetch", "nope"])
    assert unknown.exit_code == 1
    assert "snelson" in str(unknown.output) + str(unknown.exception)
