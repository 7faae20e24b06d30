"""The benchmarks measure what they say: small runs, checked against what is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from speed.peers import measure
from speed.run import BenchSettings, run_bench
from speed.scaling import fit_exponent

pytestmark = pytest.mark.data
SHORT = 2e-4  # of the way: a hundred evaluations


@pytest.mark.parametrize("task", ["dims", "rla"])
def test_all_peers_follow_the_same_trajectories(task: str) -> None:
    pytest.importorskip("torchdiffeq")
    pytest.importorskip("torchode")
    records = [
        measure(peer, task, 2, 0, part=3 * SHORT) for peer in ("recipe", "torchode", "dopri5")
    ]
    norms = torch.tensor([record["gradient_norm"] for record in records])
    torch.testing.assert_close(norms, norms[:1].expand(3), rtol=1e-4, atol=0)
    for record in records:
        assert record["finished"] == 2
        assert record["evaluations"] >= 7
        assert record["core_seconds_a_sample"] > 0


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    settings = BenchSettings(
        slow_rows=1, peers=("dopri5",), tasks=("dims",), scaling=False, shortened=SHORT
    )
    first = run_bench(settings, out)
    assert run_bench(settings, out) == first == json.loads(out.read_text())


def test_exponents_of_powers() -> None:
    sizes = [10, 20, 40]
    assert fit_exponent(sizes, [s**1.5 for s in sizes]) == pytest.approx(1.5)
