"""Ctrl-C, SIGTERM and SIGHUP keep the state of the running chunk before they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from test_store import COUNT, make_posterior

import dims
from dims.mechanics.interrupts import SIGNALS, held, stoppable

PARTIAL = "partial_00000.safetensors"
pytestmark = pytest.mark.usefixtures("without_shape_checks", "_raising", "_never_by_itself")


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


@pytest.fixture
def _raising() -> Iterator[None]:
    """As in `dims sample`: no signal ends the process, as that would end the tests."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def _never_by_itself(monkeypatch) -> None:
    monkeypatch.setattr("dims.sampling.store.checkpoint.EVERY", 1e9)


class Sends:
    """Sends a signal to this process at a given report of its progress."""

    def __init__(self, number: int | None, at: int) -> None:
        self.number, self.at, self.seen = number, at, 0

    def __call__(self, now: object) -> None:
        self.seen += 1
        if self.seen == self.at and self.number is not None:
            signal.raise_signal(self.number)


def run(posterior: dims.Posterior, store: Path, progress: Sends, **more) -> dims.Draws:
    how = {"friction": 0.3, "max_time": 1.0, "settle": "none", "certify": False} | more
    return posterior.sample(COUNT, store=store, chunk_size=COUNT, progress=progress, **how)


def chunk(store: Path) -> bytes:
    return (store / "chunk_00000.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGINT, {}),
        pytest.param(signal.SIGTERM, {"solver": "dopri5", "max_time": 0.6}, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, {"save_at": (0.5,)}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_signal_keeps_the_state_of_the_chunk(posterior, tmp_path, number, how):
    whole = Sends(None, 0)
    run(posterior, tmp_path / "quiet", whole, **how)
    at = whole.seen // 2
    assert at >= 2
    with pytest.raises(KeyboardInterrupt):
        run(posterior, tmp_path / "stopped", Sends(number, at), **how)
    assert (tmp_path / "stopped" / PARTIAL).exists()
    rest = Sends(None, 0)
    run(posterior, tmp_path / "stopped", rest, **how)
    assert rest.seen == whole.seen - at  # not one look is done twice
    assert chunk(tmp_path / "stopped") == chunk(tmp_path / "quiet")


def test_a_compiled_chunk_is_kept_too(posterior, tmp_path, monkeypatch):
    """With the batch sizes of compiled steps; the compiler itself takes a minute, see below."""
    monkeypatch.setattr("dims.mechanics.stepper.compile_for", lambda device, tick: tick)
    how, whole, rest = {"compile": True, "max_time": 2.0}, Sends(None, 0), Sends(None, 0)
    run(posterior, tmp_path / "quiet", whole, **how)
    with pytest.raises(KeyboardInterrupt):
        run(posterior, tmp_path / "stopped", Sends(signal.SIGINT, 2), **how)
    run(posterior, tmp_path / "stopped", rest, **how)
    assert rest.seen == whole.seen - 2 > 0
    assert chunk(tmp_path / "stopped") == chunk(tmp_path / "quiet")


COMPILED = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import test_store, test_store_signals as signals
posterior = test_store.make_posterior()
signals.run(posterior, Path({store!r}), signals.Sends({number}, {at}), compile=True, max_time=2.0)
"""


@pytest.mark.slow
def test_a_compiled_chunk_goes_on_in_another_process(tmp_path):
    """There the compiler sees the smaller batch first."""
    for store, number, at in (("quiet", None, 0), ("stopped", 2, 3), ("stopped", None, 0)):
        place = str(tmp_path / store)
        program = COMPILED.format(
            tests=str(Path(__file__).parent), store=place, number=number, at=at
        )
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=False)
        assert (done.returncode != 0) == (number is not None)
        assert (tmp_path / store / PARTIAL).exists() == (number is not None)
    assert chunk(tmp_path / "stopped") == chunk(tmp_path / "quiet")


def test_a_moving_metric_is_kept_too(posterior, tmp_path, monkeypatch):
    """Its frames change in place; where they are chosen, a signal waits."""
    how = {"metric": dims.MovingMetric(turn=0.3, flat_curvature=0.1), "max_time": 0.3}
    quiet = run(posterior, tmp_path / "quiet", Sends(None, 0), **how)
    assert (quiet.gradient_equivalents > quiet.evaluations).any()
    choose, calls = dims.MovingMetric.refresh, []

    def refresh(self, *arguments):
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return choose(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(dims.MovingMetric, "refresh", refresh)
        with pytest.raises(KeyboardInterrupt):
            run(posterior, tmp_path / "stopped", Sends(None, 0), **how)
    again = run(posterior, tmp_path / "stopped", Sends(None, 0), **how)
    for name in ("parameters", "loss", "evaluations", "metric_length", "energy_violation"):
        assert torch.equal(getattr(again, name), getattr(quiet, name)), name


@pytest.mark.slow
def test_what_is_stopped_while_it_settles_has_its_trajectories(posterior, tmp_path, monkeypatch):
    how = {"settle": "stiff"}
    run(posterior, tmp_path / "quiet", Sends(None, 0), **how)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dims.sampling.samplers.dims.settle", stop)
        with pytest.raises(KeyboardInterrupt):
            run(posterior, tmp_path / "stopped", Sends(None, 0), **how)
    rest = Sends(None, 0)
    run(posterior, tmp_path / "stopped", rest, **how)
    assert rest.seen == 2  # one look at rows that have ended, and the chunk
    assert chunk(tmp_path / "stopped") == chunk(tmp_path / "quiet")


def test_a_chunk_that_is_being_written_is_written(posterior, tmp_path, monkeypatch):
    save = dims.Draws.save

    def interrupted(self, *arguments, **more):
        signal.raise_signal(signal.SIGTERM)
        save(self, *arguments, **more)

    monkeypatch.setattr(dims.Draws, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(posterior, tmp_path, Sends(None, 0))
    assert chunk(tmp_path)
    assert not (tmp_path / PARTIAL).exists()


def test_an_interrupt_waits_until_a_held_block_ends():
    done = []

    def work() -> None:
        with held(), held():
            signal.raise_signal(signal.SIGHUP)
            done.append("whole")
        done.append("not reached")

    with stoppable(), pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["whole"]
    with held():  # nothing is left over
        pass


def test_ignored_signals_and_handlers_of_a_program_stay():
    seen: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    with stoppable():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import test_store, test_store_signals
posterior = test_store.make_posterior()
def ready(now): print("moving", flush=True)
test_store_signals.run(posterior, Path({store!r}), ready, max_time=1000.0)
"""


def test_a_program_still_ends_by_the_signal_it_got(tmp_path):
    program = PROGRAM.format(tests=str(Path(__file__).parent), store=str(tmp_path))
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    with child.stdout:
        for _ in range(3):
            assert child.stdout.readline() == b"moving\n"
        os.kill(child.pid, signal.SIGTERM)
        began = time.monotonic()
        child.stdout.read()
    assert child.wait(timeout=30) == -signal.SIGTERM
    assert time.monotonic() - began < 30
    assert (tmp_path / PARTIAL).exists()
