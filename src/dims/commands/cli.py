"""The program `dims`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        from dims.commands import app
    except ImportError as error:
        if error.name in ("typer", "rich"):
            sys.exit("dims: the command line needs typer and rich: pip install 'dims[cli]'")
        raise
    app()
