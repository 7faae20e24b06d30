"""What goes wrong in a user's program, said in one line."""

from __future__ import annotations

import re
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dims.errors import TableError

__all__ = ["FINISHED", "in_plain_words", "print_briefly"]

FINISHED: list[Path] = []  # folders of what this program has learned, or has taken from there

# What warnings advise, by what a program of `dims init` has instead.
INSTEAD = (
    (r"dims\.fit\(\.\.\., (prior_precision=[^()]*)\)", r"\1 in estimator()"),
    (r"posterior\.sample\(\.\.\., ((?:max_time|settle|tolerance)=[^()]*)\)", r"\1 in estimator()"),
    (r" \(dims sample [^()]*\)", ""),
    (r"draws_\.summary\(\) says why", "VERBOSE = True at the top says why"),
    (r"network_only\(\)", 'ANSWER = "network" at the top'),
)


@contextmanager
def in_plain_words() -> Iterator[None]:
    """Warnings become single lines of the error stream, repeated at the end of the output where
    nobody misses them; a table that cannot be used ends the program with one line and code 2.

    A program that lets Ctrl-C end it at once, while it imports, need not do so any more.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    said: list[str] = []
    FINISHED.clear()

    def say(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        for pattern, own in INSTEAD:
            text = re.sub(pattern, own, text)
        if text not in said:
            said.append(text)
            print(f"WARNING: {text}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = say
        try:
            yield
        except (TableError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(2) from error
        except KeyboardInterrupt as error:
            print(f"interrupted; {_what_is_kept()}", file=sys.stderr)
            raise SystemExit(130) from error
    if said:
        print("", *(f"WARNING: {text}" for text in said), sep="\n")


def print_briefly(text: str) -> None:
    """Print only the lines that judge an answer or warn of it, where all has been said before.

    Args:
        text: What `print` would print.
    """
    for line in text.splitlines():
        if line.startswith(("WARNING", "Verdict")):
            print(line)


def _what_is_kept() -> str:
    if not FINISHED:
        return "nothing was learned to the end, so the same command starts again"
    folders = ", ".join(map(str, dict.fromkeys(FINISHED)))
    return f"what was learned is kept in {folders}; the same command goes on from there"
