"""How a command ends that cannot go on: one line for the person, a code for the shell."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

__all__ = ["BAD_INPUT", "CANNOT_GO_ON", "FAILED_DRAWS", "INTERRUPTED", "end", "tell"]

CANNOT_GO_ON, BAD_INPUT, FAILED_DRAWS, INTERRUPTED = 1, 2, 3, 130


def tell(message: object) -> None:
    """Print one line to stderr."""
    print(f"dims: {' '.join(str(message).split())}", file=sys.stderr)


def end(message: object, code: int = BAD_INPUT) -> NoReturn:
    """Print one line to stderr and leave with a code."""
    tell(message)
    raise typer.Exit(code)
