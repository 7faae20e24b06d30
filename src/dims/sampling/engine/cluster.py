"""Jobs on the workers of a Ray cluster, or on all cores of this machine.

The workers compute, this process alone writes: the store may lie on a disk that only it sees. What
travels is the network, its data and the curvature once, and the draws back.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from dims.errors import EngineError
from dims.mechanics.batch import Progress
from dims.mechanics.interrupts import stoppable
from dims.model.shapes import check_integer
from dims.prediction.showing import ShownSettings
from dims.sampling.draws import Draws
from dims.sampling.engine.work import Job, Name, Result, Work, with_threads
from dims.sampling.progress import RunProgress

__all__ = ["Ray", "send_source"]

LOOK_EVERY = 0.5  # seconds between two looks at the progress of the workers
PATIENCE = 10.0  # seconds that interrupted workers have to keep the state of their chunks


@dataclass(frozen=True)
class Ray(ShownSettings):
    """A Ray cluster that computes the chunks of a run.

    On a GPU model every worker takes one GPU. A worker that dies takes only its own chunk along.

    Args:
        address: Address of the cluster; None takes that of the variable RAY_ADDRESS or, without
            it, this machine alone.
        threads: Threads of each worker.
        retries: How often a chunk whose worker died is tried again.

    Raises:
        ValueError: `threads` is below 1, or `retries` is negative.

    Example:
        >>> draws = posterior.sample(1000, engine=dims.Ray(threads=2), store="runs/large")
    """

    address: str | None = None
    threads: int = 1
    retries: int = 3

    def __post_init__(self) -> None:
        check_integer("threads", self.threads)
        check_integer("retries", self.retries, lowest=0)

    def run(
        self, work: Work, jobs: Sequence[Job], progress: RunProgress
    ) -> Iterator[tuple[Job, Draws]]:
        if not jobs:
            return
        device = work.start.position.device
        gpus = 1 if device.type == "cuda" else 0
        if gpus and device.index not in (None, 0):
            raise ValueError(
                f"model: it is on {device}, but a worker sees its one GPU as cuda:0; "
                'move the model with model.to("cuda:0") and fit again'
            )

        def take(job: Job, parts: dict[str, Any]) -> Draws:
            progress.finish(job.rows)
            start = work.start
            return Draws(
                surface=start.surface, map_parameters=start.position, **_moved(parts, device)
            )

        with _connected(self.address, work.threads, gpus) as ray:
            compute = ray.remote(_compute).options(
                num_cpus=work.threads, num_gpus=gpus, max_retries=self.retries, name="dims chunk"
            )
            board = ray.remote(_Board).options(num_cpus=0, max_restarts=-1).remote()
            sent = ray.put(work)
            waiting = {compute.remote(sent, job, board): job for job in jobs}
            look = partial(_tell, ray, board, waiting, progress)
            try:
                yield from _as_they_end(
                    ray, waiting, "the chunks could not be computed", take, look
                )
            finally:
                ray.kill(board)

    def each(self, tasks: Mapping[Name, Callable[[], Result]]) -> Iterator[tuple[Name, Result]]:
        """As they end; the first that raised is told when all others have ended."""
        if not tasks:
            return
        with _connected(self.address, self.threads) as ray:
            call = ray.remote(_call).options(num_cpus=self.threads, max_retries=self.retries)
            waiting = {call.remote(task, self.threads): name for name, task in tasks.items()}
            yield from _as_they_end(
                ray, waiting, f"{len(tasks)} tasks failed", lambda _, result: result
            )


def _call(task: Callable[[], Result], threads: int) -> Result:
    """In a worker."""
    with with_threads(threads):
        return task()


def _as_they_end(
    ray: Any,
    waiting: dict[Any, Name],
    what: str,
    take: Callable[[Name, Any], Result],
    look: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Name, Result]]:
    """Names and what `take` makes of results; failures are told when all others have ended."""
    failed: list[tuple[Name, Exception]] = []
    try:
        while waiting:
            done, _ = ray.wait(list(waiting), timeout=LOOK_EVERY)
            look()
            for reference in done:
                name = waiting[reference]
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayError as error:
                    failed.append((name, error))
                else:
                    yield name, take(name, result)
                del waiting[reference]
    finally:  # also at Ctrl-C, and where a chunk could not be written
        _cancel(ray, list(waiting))
    if failed:
        first, cause = failed[0]
        raise EngineError(
            f"{len(failed)} of {what}, first that of {first} ({_reason(cause)}); where results are "
            "kept (a store, a folder), the same call goes on with what is missing"
        ) from cause


def _cancel(ray: Any, running: list[Any]) -> None:
    """Interrupt the workers, so that they keep the state of their chunks, then end them."""
    for reference in running:
        ray.cancel(reference, force=False)
    late: list[Any] = []
    if running:
        _, late = ray.wait(running, num_returns=len(running), timeout=PATIENCE)
    # Not those that have ended: a reply that is under way to a forced task ends this process in
    # Ray 2.60 ("Tried to complete task that was not pending").
    for reference in late:
        ray.cancel(reference, force=True)


def _tell(ray: Any, board: Any, waiting: dict[Any, Job], progress: RunProgress) -> None:
    try:
        posted = ray.get(board.read.remote(), timeout=LOOK_EVERY)
    except ray.exceptions.RayError:  # it moves to another node, or all are busy
        return
    for job in waiting.values():
        if job.rows in posted:
            progress.update(job.rows, Progress(*posted[job.rows]))


def _reason(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines() or [""]
    return f"{type(cause).__name__}: {lines[0]}"


class _Board:
    """Where workers write how far they are."""

    def __init__(self) -> None:
        self.latest: dict[tuple[int, ...], tuple[float, ...]] = {}

    def post(self, rows: tuple[int, ...], now: tuple[float, ...]) -> None:
        self.latest[rows] = now

    def read(self) -> dict[tuple[int, ...], tuple[float, ...]]:
        return self.latest


def _compute(work: Work, job: Job, board: Any) -> dict[str, Any]:
    """In a worker: the draws without their network, which the other side has."""
    with stoppable():
        draws = work.compute(job, _poster(board, job))
    parts = {field.name: getattr(draws, field.name) for field in fields(Draws)}
    del parts["surface"], parts["map_parameters"]
    return _moved(parts, "cpu")


def _moved(parts: dict[str, Any], device: torch.device | str) -> dict[str, Any]:
    return {
        name: value.to(device) if isinstance(value, Tensor) else value
        for name, value in parts.items()
    }


def _poster(board: Any, job: Job) -> Callable[[Progress], None]:
    last = time.monotonic()

    def post(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= LOOK_EVERY:
            last = time.monotonic()
            board.post.remote(job.rows, tuple(now))

    return post


def _import_ray() -> Any:
    try:
        import ray
        import ray.cloudpickle
        import ray.exceptions
    except ImportError as error:
        raise ImportError("engine: Ray is not installed: pip install 'dims[ray]'") from error
    return ray


def send_source(module: ModuleType) -> None:
    """Classes of this module travel with the work: workers cannot import a user's own file."""
    _import_ray().cloudpickle.register_pickle_by_value(module)


@contextmanager
def _signals_as_before() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and would leave without saving anything."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _connected(address: str | None, cpus: int, gpus: int = 0) -> Iterator[Any]:
    """Ray with a cluster: the one already joined, or one joined or begun now and left at the end.

    A node must have the CPUs and GPUs of a worker: a job that fits none would wait for ever.
    """
    ray = _import_ray()
    joined = ray.is_initialized()
    if not joined:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent without being asked
        try:
            with _signals_as_before():
                ray.init(
                    address=address,
                    include_dashboard=None,
                    log_to_driver=False,
                    logging_level="error",
                )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise EngineError(
                f"address: no Ray cluster at {address or 'RAY_ADDRESS'} ({_reason(error)}); look "
                "at `ray status` there, or leave the address out to use this machine"
            ) from error
    try:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
            raise EngineError(
                f"engine: no node of the cluster has {cpus} CPUs and {gpus} GPUs for a worker; "
                "add one, or give fewer threads (an existing store keeps those it was begun with)"
            )
        yield ray
    finally:
        if not joined:
            ray.shutdown()
