"""Progress of a batch of trajectories in a terminal; silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dims.solvers.batch import Progress

__all__ = ["Report", "progress_reporter"]

Report = Callable[[Progress], None]


@contextmanager
def progress_reporter(progress: bool | Report, label: str) -> Iterator[Report | None]:
    """A callback for `integrate`: the given one, a bar (in a terminal, with rich), or none."""
    if callable(progress):
        yield progress
        return
    bar = _bar() if progress and sys.stderr.isatty() else None
    if bar is None:
        yield None
        return
    with bar:
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


def _bar():  # type: ignore[no-untyped-def]  # rich is an extra
    try:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    from rich.console import Console

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
    )
