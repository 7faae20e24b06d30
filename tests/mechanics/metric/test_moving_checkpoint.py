"""A run with a moving metric goes on where it was stopped, bitwise: also amid a refresh."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from old_problem import Stop
from test_store import COUNT, make_posterior
from torch import Tensor

import dims
import problems
from cases import first
from dims.errors import SnapshotError
from dims.sampling.draws.fields import ROW_TENSORS
from dims.sampling.engine import Job
from dims.sampling.store.run import _Store

METRIC = dims.MovingMetric(turn=0.02, rank=4, points=6)
HOW = {"friction": 0.3, "max_time": 0.5, "settle": "none", "certify": False, "metric": METRIC}
TIMED = ("gradient_equivalents",)  # seconds differ from run to run
pytestmark = pytest.mark.usefixtures("without_shape_checks")

WHOLE = ("positions", "velocities", "energy", "dissipated", "arc_length", "metric_length")
WHOLE += ("energy_violation", "step_error", "steps", "rejections", "evaluations", "refreshes")


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


@pytest.fixture(autouse=True)
def _at_every_look(monkeypatch) -> None:
    monkeypatch.setattr("dims.sampling.store.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("dims.sampling.store.checkpoint.LARGEST_SHARE", float("inf"))


class Memory:
    """Keeps a copy of every state it is given, and begins with one of another run."""

    def __init__(self, start: dict[str, Tensor] | None = None) -> None:
        self.start, self.kept = start, []
        self.refused: SnapshotError | None = None

    def load(self) -> dict[str, Tensor] | None:
        return self.start

    def offer(self, pack: Callable[[], dict[str, Tensor]]) -> None:
        self.kept.append({name: tensor.clone() for name, tensor in pack().items()})

    def refuse(self, error: SnapshotError) -> None:
        self.refused = error


def travel(solver: str, memory: Memory) -> dims.Trajectories:
    generator = torch.Generator().manual_seed(0)
    how = {"tolerance": 1e-4} if solver == "dopri5" else {}
    return dims.integrate(
        problems.ring(),
        torch.tensor([1.0, 0.0], dtype=torch.float64),
        torch.randn(5, 2, generator=generator, dtype=torch.float64),
        solver=solver,
        metric=dims.MovingMetric(turn=0.5, flat_curvature=0.1),
        save_at=[0.4, 1.0],
        max_time=1.0,
        checkpoint=memory,
        **how,
    )


@pytest.mark.parametrize("solver", first(["rattle", "dopri5"]))
def test_from_any_state_the_numbers_are_the_same(solver):
    """Among them states that are kept right before a refresh, and right after one."""
    memory = Memory()
    whole = travel(solver, memory)
    assert whole.refreshes.max() > 1
    before = [i for i, kept in enumerate(memory.kept) if kept["state.refreshing"].any()]
    assert before
    after = [i + 1 for i in before if i + 1 < len(memory.kept)]
    for index in sorted({0, before[0], before[-1], *after[:1], len(memory.kept) // 2}):
        again = travel(solver, Memory(memory.kept[index]))
        for name in WHOLE:
            assert torch.equal(getattr(whole, name), getattr(again, name)), (index, name)
        assert again.status == whole.status


def test_a_state_of_another_metric_is_refused():
    """Of the euclidean one, of another rank, and of a version that had no metric."""
    memory = Memory()
    whole = travel("rattle", memory)
    state = memory.kept[2]
    fields = ("basis", "softening", "scale", "level", "turned", "speed", "refreshes", "number")
    old = {
        name: tensor
        for name, tensor in state.items()
        if name.split(".")[-1] not in (*fields, "refresh_time", "excess")
    }
    rank = {
        name: tensor[:, :1] if name.endswith(("basis", "softening")) else tensor
        for name, tensor in state.items()
    }
    plain = {
        name: tensor[:, :0] if name.endswith(("basis", "softening")) else tensor
        for name, tensor in state.items()
    }
    for tensors in (old, rank, plain):
        offered = Memory(tensors)
        again = travel("rattle", offered)
        assert offered.refused is not None
        assert torch.equal(again.positions, whole.positions)  # it begins anew


def run(posterior: dims.Posterior, store: Path, stop: Stop) -> dims.Draws:
    return posterior.sample(COUNT, store=store, chunk_size=COUNT, progress=stop, **HOW)


def assert_same(one: dims.Draws, other: dims.Draws) -> None:
    for name in ROW_TENSORS:
        if name not in TIMED:
            ours, theirs = getattr(one, name), getattr(other, name)
            assert torch.equal(ours.nan_to_num(-1), theirs.nan_to_num(-1)), name
    assert one.status == other.status
    assert one.settings == other.settings


@pytest.fixture(scope="module")
def quiet(posterior, tmp_path_factory) -> tuple[dims.Draws, int]:
    """The draws of an undisturbed run, and how often it reports."""
    whole = Stop(-1)
    return run(posterior, tmp_path_factory.mktemp("quiet") / "run", whole), whole.seen


@pytest.mark.slow
def test_a_chunk_goes_on_where_it_stopped(posterior, quiet, tmp_path):
    draws, reports = quiet
    assert (draws.metric_length != draws.arc_length).all()
    half = reports // 2
    assert half >= 2
    with pytest.raises(KeyboardInterrupt):
        run(posterior, tmp_path / "run", Stop(half))
    assert (tmp_path / "run" / "partial_00000.safetensors").exists()
    rest = Stop(-1)
    assert_same(run(posterior, tmp_path / "run", rest), draws)
    assert rest.seen < reports


# Killed by itself, in the middle of choosing a frame for the fourth time.
PROGRAM = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {paths!r}
import torch
import dims.sampling.store.checkpoint
from dims.mechanics.metric import choice
dims.sampling.store.checkpoint.EVERY = 0.0
dims.sampling.store.checkpoint.LARGEST_SHARE = float("inf")
torch.set_num_threads(1)
import test_store, test_moving_checkpoint
calls, products = [], choice.row_products
def killed(*arguments):
    calls.append(1)
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return products(*arguments)
choice.row_products = killed
test_moving_checkpoint.run(test_store.make_posterior(), Path({store!r}), lambda now: None)
"""


@pytest.mark.slow
def test_killed_amid_a_refresh_it_ends_with_the_same_numbers(posterior, quiet, tmp_path):
    store = tmp_path / "run"
    here = Path(__file__).parent
    paths = [str(here), *(str(here.parents[1] / name) for name in (".", "sampling"))]
    program = PROGRAM.format(paths=paths, store=str(store))
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (store / "partial_00000.safetensors").exists()
    rest = Stop(-1)
    assert_same(run(posterior, store, rest), quiet[0])
    assert rest.seen < quiet[1]


def test_a_state_with_many_directions_is_not_too_large_to_be_read(tmp_path):
    """Rank 100 at half a million parameters: ten gigabytes in a chunk of fifty, and read again."""
    vector = SimpleNamespace(size=500_000, dtype=torch.float32)
    rows = tuple(range(50))
    for sampler, fits in ((dims.DiMS(), True), (dims.DiMS(metric="euclidean"), False)):
        store = _Store(tmp_path, SimpleNamespace(vector=vector), sampler, "", 1, True)
        directions = 50 * 100 * 500_000 * 4
        others = 50 * 40 * 500_000 * 4  # positions, velocities, gradients, some in float64
        limit = store._checkpoint(Job(0, rows)).largest
        assert (directions + others <= limit) == fits
