"""Progress of a batch of trajectories, of a part, or of a stage; `displays` show it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dims.mechanics.batch import Progress
from dims.sampling.displays import display

__all__ = ["Report", "RunProgress", "part_reporter", "progress_reporter", "stage"]

Report = Callable[[Progress], None]
TELL_EVERY = 0.5  # seconds


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
    """A callback for `integrate`: the given one, one that shows a bar or log lines, or none."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield None
        return
    with display(label) as shown:

        def report(now: Progress) -> None:
            whole = max(now.rows * now.end_time, 1e-300)
            done = now.done * now.end_time + (now.rows - now.done) * now.mean_time
            shown.show(
                min(done / whole, 1.0),
                f"{label}: {now.done}/{now.rows} done, t {now.mean_time:.3g}, "
                f"T {now.mean_kinetic_energy:.3g}, L {now.mean_loss:.4g}",
            )

        yield report


@contextmanager
def part_reporter(
    progress: bool | Callable[[float], None], label: str
) -> Iterator[Callable[[float], None]]:
    """A callback that takes the part that is done, from 0 to 1: the given one, or one that shows
    it."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda part: None
        return
    with display(label) as shown:
        yield lambda part: shown.show(part, label)


@contextmanager
def stage(progress: bool | Callable[..., None], label: str) -> Iterator[None]:
    """Show that something goes on whose end is not known."""
    if callable(progress) or not progress:
        yield
        return
    over = threading.Event()
    with display(label) as shown:

        def tell() -> None:
            while True:
                shown.show(None, label)
                if over.wait(TELL_EVERY):
                    return

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()
