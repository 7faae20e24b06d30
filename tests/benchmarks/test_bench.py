"""The benchmarks measure what they claim: small runs with known results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cases import first
from speed.run import BenchSettings, run_bench
from speed.scaling import fit_exponent
from speed.solvers import measure

pytestmark = pytest.mark.data
SHORT = 2e-4  # of a trajectory: a hundred evaluations


@pytest.mark.parametrize("task", first(["rla", "dims"]))
def test_all_solvers_follow_the_same_trajectories(task: str) -> None:
    pytest.importorskip("torchdiffeq")
    pytest.importorskip("torchode")
    records = [
        measure(solver, task, 2, 0, fraction=3 * SHORT)
        for solver in ("reference", "torchode", "dopri5")
    ]
    norms = torch.tensor([record["gradient_norm"] for record in records])
    torch.testing.assert_close(norms, norms[:1].expand(3), rtol=1e-4, atol=0)
    for record in records:
        assert record["finished"] == 2
        assert record["evaluations"] >= 7
        assert record["core_seconds_a_sample"] > 0


def test_a_run_continues_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    settings = BenchSettings(
        slow_rows=1, solvers=("dopri5",), tasks=("dims",), scaling=False, fraction=SHORT
    )
    first = run_bench(settings, out)
    assert run_bench(settings, out) == first == json.loads(out.read_text())


def test_exponents_of_powers() -> None:
    sizes = [10, 20, 40]
    assert fit_exponent(sizes, [s**1.5 for s in sizes]) == pytest.approx(1.5)
