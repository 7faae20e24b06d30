"""A progress bar for an experiment that reports in words what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PERCENT = re.compile(r"\s*(\d+) %$")


class Stages:
    """What is reported is shown beside the bar; a percentage at its end moves the bar."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.task = bar.add_task("starting", total=None)

    def update(self, what: str) -> None:
        found = PERCENT.search(what)
        if found is None:
            self.bar.update(self.task, description=what, total=None)
        else:
            words, part = what[: found.start()], int(found[1])
            self.bar.update(self.task, description=words, total=100, completed=part)


@contextmanager
def stages(console: Console) -> Iterator[Stages]:
    """A bar that is removed when the experiment is over."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        yield Stages(bar)
