"""Tables show the metrics that rows contain, also those that a user has registered."""

from __future__ import annotations

import csv
from io import StringIO

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import dims
from dims.prediction.metrics import registry
from dims_paper.results_page import results_page
from dims_paper.schema import Row, Run
from dims_paper.scoring import Evaluation, draws_of
from dims_paper.tables import Table, is_better_high, metric_label, metrics_of, score_table


def test_a_table_is_the_same_as_markdown_csv_and_in_a_terminal(tmp_path):
    table = Table(["set", "NLL"], [["glass", "0.5"], ["iris, all", ""]], title="Small")
    lines = ["| set | NLL |", "| --- | --- |", "| glass | 0.5 |", "| iris, all |  |"]
    assert table.markdown().splitlines() == lines
    table.write_csv(tmp_path / "deep" / "table.csv")
    with (tmp_path / "deep" / "table.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["set", "NLL"], ["glass", "0.5"], ["iris, all", ""]]
    shown = StringIO()
    table.show(Console(file=shown, width=60))
    assert [line.split() for line in shown.getvalue().splitlines()[1:3]] != []
    assert all(word in shown.getvalue() for word in ("Small", "NLL", "iris, all", "0.5"))


def test_labels_and_directions_are_those_of_the_library():
    assert [metric_label(name) for name in ("nll", "brier", "unheard_of")] == [
        "NLL",
        "Brier",
        "unheard_of",
    ]
    assert metric_label("auroc emnist_letters") == "AUROC emnist letters"
    better = ("accuracy", "accuracy_percent", "auroc", "auroc kmnist")
    assert [is_better_high(name) for name in (*better, "nll", "ece_percent")] == [True] * 4 + (
        [False] * 2
    )


def test_a_registered_metric_appears_in_all_tables(monkeypatch: pytest.MonkeyPatch):
    def bias(means: Tensor, targets: Tensor) -> Tensor:
        return (means - targets).mean(dim=(-2, -1)).abs()

    monkeypatch.setattr(registry, "_METRICS", dict(registry._METRICS))
    dims.metrics.register("bias", bias, task="regression", label="Bias", higher_is_better=False)
    x = torch.linspace(-1, 1, 7, dtype=torch.float64).unsqueeze(-1)
    surface = dims.LossSurface(nn.Linear(1, 1).double(), (x, 2 * x), dims.Gaussian(0.5), 1.0)
    thetas = torch.tensor([[2.0, 0.5], [2.0, 1.5]], dtype=torch.float64)  # slope, intercept
    row = Evaluation({"test": (x, 2 * x)}).row("Mine", draws_of(surface, thetas), seconds=1.0)
    assert row.metric("test", "bias") == pytest.approx(1.0)
    run = Run(experiment="lines", dataset="lines", seed=0, rows=[row])
    assert "bias" in metrics_of([row])
    table = score_table([run], "test", "Lines")
    cell = table.rows[0][list(table.columns).index("Bias")]
    assert cell == "1 / 1"
    (scores,) = results_page([run.to_json()], None)["tables"]
    labels = [column["label"] for column in scores["columns"]]
    assert scores["rows"][0][labels.index("Bias")] == pytest.approx(1.0)


def test_a_metric_that_nobody_registered_has_its_own_name():
    scores = {"per_sample": {"nll": 0.5, "fairness": 0.25}, "ensemble": {"fairness": 0.75}}
    run = Run(experiment="x", dataset="x", rows=[Row(method="A", scores={"test": scores})])
    table = score_table([run], "test", "x")
    shown = dict(zip(table.columns, table.rows[0], strict=True))
    assert shown["NLL"] == "0.5"
    assert shown["fairness"] == "0.25 / 0.75"
