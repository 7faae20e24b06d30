"""Progress of a batch of trajectories in a terminal; silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from dims.mechanics.batch import Progress

__all__ = ["Report", "RunProgress", "part_reporter", "progress_reporter"]

Report = Callable[[Progress], None]


class RunProgress:
    """Adds the progress of the chunks of a run up to that of the run, whoever computes them."""

    def __init__(self, report: Report | None, rows: int, done: int = 0) -> None:
        self.report = report
        self.rows = rows
        self.before = done  # of an earlier call
        self.finished = 0
        self.end_time = 1.0
        self.running: dict[tuple[int, ...], Progress] = {}
        self.last = (0.0, 0.0, 0.0)  # mean time, T and L while something moved

    def update(self, chunk: tuple[int, ...], now: Progress) -> None:
        """How far the batch of these rows is."""
        self.running[chunk] = now
        self.end_time = now.end_time
        self._tell()

    def finish(self, chunk: tuple[int, ...]) -> None:
        self.running.pop(chunk, None)
        self.finished += len(chunk)
        self._tell()

    def _tell(self) -> None:
        if self.report is None:
            return
        running = self.running.values()
        done = self.before + self.finished + sum(now.done for now in running)
        moving = sum(now.rows - now.done for now in running)

        def mean(name: str, rows: int) -> float:
            """Over so many rows; those that are not moving count as 0."""
            moved = (now for now in running if now.rows > now.done)
            return sum((now.rows - now.done) * getattr(now, name) for now in moved) / rows

        if moving:  # the time of those that wait is 0
            time = mean("mean_time", self.rows - done)
            self.last = (time, mean("mean_kinetic_energy", moving), mean("mean_loss", moving))
        self.report(Progress(done, self.rows, self.end_time, *self.last))


@contextmanager
def progress_reporter(progress: bool | Report, label: str) -> Iterator[Report | None]:
    """A callback for `integrate`: the given one, a bar (in a terminal, with rich), or none."""
    if callable(progress):
        yield progress
        return
    if not _shows(progress):
        yield None
        return
    with _bar() as bar:
        task = bar.add_task(label, total=None)

        def report(now: Progress) -> None:
            bar.update(
                task,
                total=now.rows * now.end_time,
                completed=now.done * now.end_time + (now.rows - now.done) * now.mean_time,
                description=(
                    f"{label}: {now.done}/{now.rows} done, t {now.mean_time:.3g}, "
                    f"T {now.mean_kinetic_energy:.3g}, L {now.mean_loss:.4g}"
                ),
            )

        yield report


@contextmanager
def part_reporter(
    progress: bool | Callable[[float], None], label: str
) -> Iterator[Callable[[float], None]]:
    """A callback that takes the part that is done, from 0 to 1: the given one or a bar."""
    if callable(progress):
        yield progress
        return
    if not _shows(progress):
        yield lambda part: None
        return
    with _bar() as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda part: bar.update(task, completed=part)


def _shows(progress: bool) -> bool:
    """Whether there is a terminal to show a bar in."""
    return progress and sys.stderr.isatty() and find_spec("rich") is not None


def _bar():  # type: ignore[no-untyped-def]  # rich is an extra
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
    )
