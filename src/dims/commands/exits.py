"""How a command ends that cannot go on: one line for the person, a code for the shell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import typer

__all__ = ["BAD_INPUT", "CANNOT_GO_ON", "FAILED_DRAWS", "INTERRUPTED", "end", "stop"]
__all__ += ["tell"]

CANNOT_GO_ON, BAD_INPUT, FAILED_DRAWS, INTERRUPTED = 1, 2, 3, 130


def tell(message: object) -> None:
    """Print one line to stderr."""
    print(f"dims: {' '.join(str(message).split())}", file=sys.stderr)


def end(message: object, code: int = BAD_INPUT) -> NoReturn:
    """Print one line to stderr and leave with a code."""
    tell(message)
    raise typer.Exit(code)


def stop(store: Path) -> NoReturn:
    """Say what is left of a run that a person has stopped."""
    done = f"what is done is in {store}" if store.exists() else "nothing was done yet"
    end(f"stopped; {done}, the same command goes on", INTERRUPTED)
