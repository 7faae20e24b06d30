"""The UCI regression benchmark: one tiny run of the whole protocol, and its tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import dims
from dims_paper.datasets.uci_regression import RegressionSplit
from uci_regression.__main__ import run
from uci_regression.protocol import Configuration, _scores, run_split
from uci_regression.published_table import difference, mean_and_error, table, verdicts

TINY = Configuration(hidden=2, epochs=5, draws=2, times=(0.02, 0.05), noise="constant", ensemble=2)


def line(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    return x, 0.8 * x + 0.6 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_the_whole_protocol_runs_and_can_be_written_down() -> None:
    data = RegressionSplit(line(60, 0), line(40, 1), 10.0)
    found = run_split("line", data, 0, TINY)
    assert set(found["scores"]) == {"stacked", "network", "end", "times", "ensemble"}
    assert len(found["weights"]) == 3  # the network, one saved time, the end
    assert sum(found["weights"]) == pytest.approx(1)
    # A line with noise of 6: log 6 + ½ log 2πe = 3.21 nats is the best there is.
    assert 2.9 < found["scores"]["stacked"]["nll"] < 3.9
    assert 4 < found["scores"]["stacked"]["rmse"] < 12
    json.dumps(found)


def test_scores_are_in_the_units_of_the_data() -> None:
    x, y = line(40, 1)
    surface = dims.LossSurface(torch.nn.Linear(1, 1).double(), (x, y), dims.Gaussian(0.6))
    draws = dims.Draws.from_parameters(surface, surface.initial[None])
    outputs = surface.predict(surface.initial[None], x)[0]
    scores = _scores(draws, RegressionSplit((x, y), (x, y), 10.0))
    normal = torch.distributions.Normal(10 * outputs, 6.0)  # everything ten times as large
    assert scores["nll"] == pytest.approx(float(-normal.log_prob(10 * y).detach().mean()))
    assert scores["rmse"] == pytest.approx(float(10 * (outputs - y).square().mean().sqrt()))


def test_finished_splits_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, int]] = []

    def pretend(name: str, data: Any, split: int, how: Configuration) -> dict[str, Any]:
        ran.append((name, split))
        return {"scores": {"stacked": {"nll": 1.0}}, "seconds": 0.0}

    monkeypatch.setattr("uci_regression.__main__.run_split", pretend)
    monkeypatch.setattr("uci_regression.__main__.load_regression", lambda name, split: None)
    monkeypatch.setattr("uci_regression.__main__.split_count", lambda name: 20)
    run(["yacht"], 2, TINY, tmp_path)
    (tmp_path / "yacht" / "00.json").unlink()
    run(["yacht"], 3, TINY, tmp_path)
    assert ran == [("yacht", 0), ("yacht", 1), ("yacht", 0), ("yacht", 2)]


def test_differences_are_in_standard_errors() -> None:
    assert mean_and_error([1.0, 2.0, 3.0]) == (2.0, pytest.approx(1 / math.sqrt(3)))
    assert difference((1.0, 0.3), (2.0, 0.4)) == pytest.approx(-2.0)


@pytest.mark.data
def test_the_table_sets_ours_beside_the_published_numbers() -> None:
    splits = [{"scores": {"stacked": {"nll": nll, "rmse": 3.0}}} for nll in (2.0, 2.2, 2.4)]
    shown = table({"boston": splits, "yacht": []}, "nll")
    gap = (2.2 - 2.40) / math.hypot(0.2 / math.sqrt(3), 0.04)
    assert f"| boston | 3 | 2.200 ± 0.115 | 2.40 ({gap:+.1f}) |" in shown
    assert "yacht" not in shown
    assert "MC dropout: within two or better on 1 of 1, better 0" in verdicts({"boston": splits})
