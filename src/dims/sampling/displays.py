"""Where progress is shown: a bar in a terminal or a notebook, a line now and then in a log."""

from __future__ import annotations

import html
import sys
import time
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

__all__ = ["Display", "display"]

FIRST_LINE, NEXT_LINES = 10.0, 60.0  # seconds until a log gets its first line, and between others
NOTEBOOK_EVERY = 0.25  # seconds
WORTH = 0.1  # of the whole, from which on an estimate of what is left is worth showing
SLOWEST = 0.1  # of the time so far: the last trajectories are slow, so that more is left than that


@runtime_checkable
class Display(Protocol):
    """Shows how far something is; it is a context that cleans up after itself."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *error: Any) -> None: ...

    def show(self, part: float | None, text: str) -> None:
        """The part that is done, from 0 to 1 or None where it is not known, and how to call it."""
        ...


def display(label: str) -> Display:
    """The one that fits where the program runs."""
    if _in_notebook():
        return _Notebook(label)
    if sys.stderr.isatty() and find_spec("rich") is not None:
        return _Terminal(label)
    return _Log()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"  # not the IPython of a terminal


class _Terminal:
    """A bar by rich, gone when it ends."""

    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=4,
        )
        self.task = self.bar.add_task(label, total=None)

    def __enter__(self) -> _Terminal:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def show(self, part: float | None, text: str) -> None:
        total = None if part is None else 1.0
        self.bar.update(self.task, total=total, completed=part or 0.0, description=text)


class _Notebook:
    """A bar of plain HTML in the output of the cell; it stays, with how it ended."""

    def __init__(self, label: str) -> None:
        self.label, self.last, self.latest = label, -1.0, (0.0, label)
        self.handle: Any = None

    def __enter__(self) -> _Notebook:
        from IPython.display import HTML
        from IPython.display import display as show_in_cell

        self.html = HTML
        self.handle = show_in_cell(HTML(_bar_html(None, self.label)), display_id=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        part, text = self.latest
        if kind is None:
            part = 1.0
        self.handle.update(self.html(_bar_html(part, text)))

    def show(self, part: float | None, text: str) -> None:
        self.latest = (part or 0.0, text)
        if time.monotonic() - self.last >= NOTEBOOK_EVERY:
            self.last = time.monotonic()
            self.handle.update(self.html(_bar_html(part, text)))


def _bar_html(part: float | None, text: str) -> str:
    value = "" if part is None else f' value="{part:.4f}"'
    return f"<progress max='1'{value}></progress> <code>{html.escape(text)}</code>"


class _Log:
    """Lines on stderr; nothing for what is soon done."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.next = self.began + FIRST_LINE

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, part: float | None, text: str) -> None:
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + NEXT_LINES
        spent = now - self.began
        left = ""
        if part is not None and part >= WORTH:
            left = f", about {_minutes(_left(part, spent))} left"
        text = text.removeprefix("dims: ")  # the method of this name
        print(f"dims: {text}, {_minutes(spent)} so far{left}", file=sys.stderr, flush=True)


def _left(part: float, spent: float) -> float:
    """Seconds."""
    return max(spent * (1 - part) / part, SLOWEST * spent)


def _minutes(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
