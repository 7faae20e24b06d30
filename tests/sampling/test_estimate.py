"""Memory and time of a run: refused with numbers before it starts, or told."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.errors import MemoryLimitError
from dims.model.torch_support import free_memory as memory
from dims.sampling.estimate import needed_memory

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double().eval()
        x = torch.randn(20, 2, dtype=torch.float64)
    settings = {"prior_precision": 0.3, "noise_std": 2.0, "refine": True}
    return dims.fit(model, (x, x[:, :1].sin()), "regression", **settings)


def system(monkeypatch: pytest.MonkeyPatch, folder: Path, free: int, limit: str, used: int) -> None:
    """A machine with so much memory, in a container with a limit."""
    for name, text in (
        ("MEMINFO", f"MemTotal: 99999999 kB\nMemAvailable:  {free} kB\n"),
        ("LIMIT", limit),
        ("USED", str(used)),
    ):
        (folder / name).write_text(text)
        monkeypatch.setattr(memory, name, folder / name)


def test_free_memory_is_that_of_the_machine_or_of_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system(monkeypatch, tmp_path, 4000, "max", 0)
    assert memory.free_memory(CPU) == 4000 * 1024
    system(monkeypatch, tmp_path, 4000, "3000000", 1_000_000)
    assert memory.free_memory(CPU) == 2_000_000
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    assert memory.free_memory(CPU) is None
    assert memory.free_memory(torch.device("meta")) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(12, "12 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB"), (999e9, "999 GB"), (3.2e12, "3.2 TB")],
)
def test_sizes_are_readable(size: float, text: str) -> None:
    assert memory.readable(int(size)) == text


def test_runs_that_do_not_fit_are_refused_with_numbers(
    posterior: dims.Posterior, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system(monkeypatch, tmp_path, 10_000, "max", 0)
    for ask in (posterior.sample, posterior.estimate):
        with pytest.raises(MemoryLimitError, match=r"100000 at once of 17 parameters.* GB.* MB"):
            ask(100_000)
    quick = dims.DiMS(max_time=0.1, settle="none", certify=False)
    fewer = {"store": tmp_path / "store", "chunk_size": 2, "progress": False}
    assert len(posterior.sample(3, quick, **fewer)) == 3


def test_a_full_curvature_that_does_not_fit_is_refused(
    posterior: dims.Posterior, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system(monkeypatch, tmp_path, 4, "max", 0)
    surface = posterior.surface
    data = (surface.data.inputs, surface.data.targets)
    with pytest.raises(MemoryLimitError, match=r"curvature: 'full'.*17 × 17.*9.25 kB.*'low_rank'"):
        dims.fit(surface.module.requires_grad_(), data, "regression", tune=True)


def test_memory_grows_with_what_is_asked(posterior: dims.Posterior) -> None:
    surface = posterior.surface
    sizes = [
        needed_memory(surface, sampler, rows)
        for sampler, rows in (
            (dims.LA(), 10),
            (dims.RLA(), 10),
            (dims.DiMS(metric="euclidean", save_at=(1.0, 3.0)), 10),
            (dims.DiMS(metric="moving"), 10),
            (dims.DiMS(metric="moving", save_at=(1.0, 3.0)), 10),
            (dims.DiMS(metric="moving"), 20),
            (dims.DiMS(metric="moving", certify=True), 20),
        )
    ]
    assert sizes == sorted(set(sizes))
    assert sizes[0] >= 10 * 17 * 8  # the draws themselves


def test_the_times_that_held_out_rows_weigh_are_part_of_an_estimate(
    posterior: dims.Posterior,
) -> None:
    rows = posterior.surface.data
    plain, weighed = (
        dataclasses.replace(posterior, validation=validation).estimate(2, within=0.01)
        for validation in (None, rows)
    )
    assert weighed.memory - plain.memory == 2 * 17 * 8  # one time of two draws


def test_the_time_is_right_to_a_factor(
    posterior: dims.Posterior,
    monkeypatch: pytest.MonkeyPatch,
    without_shape_checks: None,
) -> None:
    """With a clock that counts gradients, so that a busy machine does not matter."""
    gradients = 0
    plain = dims.LossSurface.value_and_grad

    def counted(self: dims.LossSurface, thetas: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal gradients
        gradients += 1
        return plain(self, thetas)

    monkeypatch.setattr(dims.LossSurface, "value_and_grad", counted)
    monkeypatch.setattr(time, "perf_counter", lambda: float(gradients))
    sampler = dims.DiMS(friction=0.3, max_time=15.0, settle="none", certify=False)
    found = posterior.estimate(3, sampler, within=60.0)
    assert 60 <= gradients <= 100
    before = gradients
    posterior.sample(3, sampler, progress=False)
    true = gradients - before
    assert true > 120
    assert true / 3 < found.seconds < 3 * true
    assert "s of motion" in str(found)


def test_samplers_without_a_motion_are_timed_too(posterior: dims.Posterior) -> None:
    assert 0 < posterior.estimate(3, "la").seconds < 60
