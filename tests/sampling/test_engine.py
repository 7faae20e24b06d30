"""The same chunks whoever computes them, and workers that may die."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from test_store import assert_same, chunks, make_posterior
from typer.testing import CliRunner

import cases
import dims
from cases import slow
from dims.commands import app
from dims.mechanics.batch import Progress
from dims.sampling.engine import Job, Work
from dims.sampling.engine.cluster import _cancel, send_source
from dims.sampling.progress import RunProgress
from dims_paper.cache import kept_runs
from dims_paper.schema import Run

COUNT, CHUNK = 8, 2


@pytest.fixture(scope="module")
def posterior() -> dims.Posterior:
    return make_posterior()


def sample(posterior: dims.Posterior, engine, store: Path | None, **more) -> dims.Draws:
    how = {"friction": 1.0, "max_time": 0.5, "settle": "none", "certify": False} | more
    return posterior.sample(
        COUNT, progress=False, engine=engine, store=store, chunk_size=CHUNK, **how
    )


@pytest.fixture(scope="module")
def quiet(posterior, tmp_path_factory) -> tuple[Path, dims.Draws]:
    """The undisturbed run, in this process with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    store = tmp_path_factory.mktemp("quiet") / "run"
    draws = sample(posterior, None, store)
    torch.set_num_threads(before)
    return store, draws


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    # A worker takes seconds to start.
    ray.init(
        num_cpus=1 if cases.brief else 2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    yield
    ray.shutdown()


def contents(store: Path) -> dict[str, str]:
    """sha256 of each chunk: files are the same byte for byte."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in chunks(store)}


@pytest.mark.usefixtures("cluster")
def test_ray_makes_the_same_files_as_this_process(posterior, quiet, tmp_path):
    store = tmp_path / "ray"
    assert_same(sample(posterior, "ray", store), quiet[1])
    assert contents(store) == contents(quiet[0])
    assert (store / "manifest.json").read_bytes() == (quiet[0] / "manifest.json").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_only_workers_that_are_late_are_forced_to_end():
    """Ray 2.60 may end the program itself where a task that has ended is forced."""
    asked: list[tuple[str, bool]] = []

    class Ray:
        def cancel(self, task: str, force: bool) -> None:
            asked.append((task, force))

        def wait(self, tasks: list[str], **_: object) -> tuple[list[str], list[str]]:
            return tasks[:1], tasks[1:]

    _cancel(Ray(), ["ended", "late"])
    assert asked == [("ended", False), ("late", False), ("late", True)]
    _cancel(Ray(), [])


def test_an_engine_needs_no_store(posterior, quiet):
    assert_same(sample(posterior, "ray", None), quiet[1])


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_one_engine_goes_on_where_the_other_stopped(posterior, quiet, tmp_path):
    store = tmp_path / "both"
    sample(posterior, "ray", store)
    chunks(store)[2].write_bytes(b"damaged")
    chunks(store)[1].unlink()
    with pytest.warns(dims.StoreWarning, match="chunk_00002"):
        assert_same(sample(posterior, None, store), quiet[1])
    chunks(store)[3].unlink()
    assert_same(sample(posterior, "ray", store), quiet[1])
    assert contents(store) == contents(quiet[0])


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_progress_adds_up_over_workers(posterior):
    seen: list[Progress] = []
    posterior.sample(
        COUNT, engine="ray", chunk_size=CHUNK, progress=seen.append,
        friction=1.0, max_time=0.5, settle="none", certify=False,
    )  # fmt: skip
    assert {now.rows for now in seen} == {COUNT}
    assert [now.done for now in seen] == sorted(now.done for now in seen)
    assert seen[-1].done == COUNT


def workers() -> list[int]:
    """Processes that compute a chunk now, among those that this one started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and computes(entry) and ours(int(entry.name)):
            found.append(int(entry.name))
    return found


def computes(entry: Path) -> bool:
    try:
        return b"ray::dims chunk" in (entry / "cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return False


def ours(process: int) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return False
        process = int(stat.rsplit(")", 1)[1].split()[1])
    return False


class Killer(threading.Thread):
    """Sends kill -9 to a worker at random moments, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__(daemon=True)
        self.times, self.killed, self.over = times, 0, False

    def run(self) -> None:
        generator = random.Random(0)
        while self.killed < self.times and not self.over:
            time.sleep(generator.uniform(0.0, 0.2))
            for process in workers()[:1]:
                os.kill(process, signal.SIGKILL)
                self.killed += 1


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "kills",
    [slow(2), pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
)
def test_killed_workers_lose_and_double_nothing(posterior, quiet, tmp_path, kills):
    store = tmp_path / "killed"
    killer = Killer(kills)
    killer.start()
    ended = time.monotonic() + 1500
    while killer.killed < kills and time.monotonic() < ended:
        for path in chunks(store):
            path.unlink()  # so that there is work left to be interrupted
        draws = sample(posterior, dims.Ray(retries=1000), store)
        assert_same(draws, quiet[1])
    killer.over = True
    killer.join()
    assert killer.killed == kills
    assert contents(store) == contents(quiet[0])
    assert not list(store.glob(".*.part"))


class Broken(Work):
    """One of its jobs cannot be computed."""

    def compute(self, job: Job, report=None) -> dims.Draws:
        if job.number == 1:
            raise MemoryError("a chunk too many")
        return super().compute(job, report)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_one_bad_chunk_does_not_take_the_others_along(posterior, quiet, tmp_path, monkeypatch):
    import ray.cloudpickle as cloudpickle
    import test_engine

    cloudpickle.register_pickle_by_value(test_engine)
    monkeypatch.setattr("dims.sampling.posterior.Work", test_engine.Broken)
    store = tmp_path / "broken"
    with pytest.raises(dims.EngineError, match=r"1 of the chunks.*draws 2 to 3.*a chunk too many"):
        sample(posterior, "ray", store)
    assert [path.name[6:11] for path in chunks(store)] == ["00000", "00002", "00003"]
    monkeypatch.undo()
    assert_same(sample(posterior, "ray", store), quiet[1])


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_an_interrupted_call_leaves_a_store_that_goes_on(posterior, quiet, tmp_path):
    def interrupt(now: Progress) -> None:
        if now.done:
            raise KeyboardInterrupt

    store = tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        posterior.sample(
            COUNT, progress=interrupt, engine="ray", store=store, chunk_size=CHUNK,
            friction=1.0, max_time=0.5, settle="none", certify=False,
        )  # fmt: skip
    assert len(chunks(store)) < 4
    deadline = time.monotonic() + 30
    while workers() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert workers() == []
    assert_same(sample(posterior, "ray", store), quiet[1])


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_interrupted_workers_keep_the_state_of_their_chunks(posterior, tmp_path):
    def interrupt(now: Progress) -> None:
        if now.mean_time > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        posterior.sample(
            2 * CHUNK, progress=interrupt, engine="ray", store=tmp_path, chunk_size=CHUNK,
            friction=0.1, max_time=1000.0, settle="none", certify=False,
        )  # fmt: skip
    assert any(tmp_path.glob("partial_*"))
    assert chunks(tmp_path) == []


ENTRY = """
import torch
class Mine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 2)
    def forward(self, x):
        return self.layer(x).tanh().sum(-1, keepdim=True)
def problem():
    x = torch.linspace(-1, 1, 9).unsqueeze(-1)
    return Mine(), (x, x.sin()), "regression"
"""


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_the_command_sends_the_users_own_classes_along(tmp_path):
    (tmp_path / "my_own.py").write_text(ENTRY)
    command = ["sample", f"{tmp_path / 'my_own.py'}:problem", "--draws", "4", "--chunk-size", "2"]
    command += ["--max-time", "0.2", "--settle", "none", "--json", "--threads", "1"]
    for engine in ("ray", "local"):
        store = ["--engine", engine, "--store", str(tmp_path / engine)]
        result = CliRunner().invoke(app, command + store)
        assert result.exit_code == 0, result.output
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    assert len(contents(tmp_path / "ray")) == 2


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_fits_nowhere_is_refused(posterior):
    with pytest.raises(dims.EngineError, match="no node of the cluster has 64 CPUs"):
        sample(posterior, dims.Ray(threads=64), None)


def test_an_unknown_engine_is_refused(posterior):
    for engine in ("spark", dims.Ray):
        with pytest.raises(ValueError, match=r"engine: .* is unknown"):
            sample(posterior, engine, None)
    with pytest.raises(ValueError, match="retries"):
        dims.Ray(retries=-1)


def test_without_ray_the_extra_is_named(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"dims\[ray\]"):
        sample(posterior, "ray", None)


def test_run_progress_weighs_chunks_by_their_rows():
    seen: list[Progress] = []
    progress = RunProgress(seen.append, rows=10, done=2)
    progress.update((2, 3, 4), Progress(1, 3, 50.0, 10.0, 2.0, 4.0))
    progress.update((5, 6), Progress(1, 2, 50.0, 40.0, 5.0, 1.0))
    # 4 done, 3 moving at times 10, 10 and 40, and 3 that wait at 0
    assert seen[-1] == Progress(4, 10, 50.0, 10.0, 3.0, 3.0)
    progress.finish((2, 3, 4))
    progress.finish((5, 6))
    assert seen[-1].done == 7


def _square(number: int) -> Run:
    if number < 0:
        raise ValueError(f"no root: {number}")
    facts = {"square": number**2, "threads": torch.get_num_threads()}
    return Run(experiment="square", facts=facts)


@pytest.mark.slow
def test_runs_of_an_experiment_go_through_the_engine(cluster: None, tmp_path: Path) -> None:
    send_source(sys.modules[__name__])
    runs = {tmp_path / f"{n}.json": partial(_square, n) for n in range(4)}
    found = kept_runs(runs, dims.Ray())
    assert [result.facts["square"] for result in found] == [0, 1, 4, 9]
    assert {result.facts["threads"] for result in found} == {1}
    # What has a file is not run again: this one would raise.
    (again,) = kept_runs({tmp_path / "2.json": partial(_square, -1)}, dims.Ray())
    assert again.facts["square"] == 4


def test_a_failing_run_does_not_stop_the_others(cluster: None, tmp_path: Path) -> None:
    send_source(sys.modules[__name__])
    runs = {tmp_path / f"{n}.json": partial(_square, n) for n in (-1, 2)}
    with pytest.raises(dims.EngineError, match=r"1 of 2 tasks failed.*-1\.json.*no root"):
        kept_runs(runs, dims.Ray())
    assert (tmp_path / "2.json").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_workers_send_saved_times_back(posterior, tmp_path):
    sampler = dims.DiMS(1.0, max_time=0.5, save_at=(0.2, 0.5), settle="none", certify=False)
    how = {"chunk_size": CHUNK, "progress": False}
    here = posterior.sample(4, sampler, store=tmp_path / "here", **how)
    there = posterior.sample(4, sampler, store=tmp_path / "there", engine="ray", **how)
    for name in ("times", "saved", "saved_loss", "saved_gradient_norm"):
        torch.testing.assert_close(getattr(there, name), getattr(here, name))
    assert there.saved.shape == (4, 2, posterior.surface.size)
