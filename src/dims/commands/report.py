"""`dims report`: a page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dims.commands.exits import end

__all__ = ["report"]


def report(
    run: Annotated[
        Path, typer.Argument(help="A file of draws, a store's folder, or results of reproduce.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page; report.html in the folder, or FILE.html.")
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(help="file.py:function of network and data, to compute predictions."),
    ] = None,
) -> None:
    """Write one HTML page that opens offline: predictions, draws, certificates, trajectories.

    A store of `dims sample` has all that the page shows. For a file of draws, or a store that a
    program of yours wrote, give the function of network and data too.

    Example: dims report runs/first --problem my_run.py:problem
    """
    from dims.commands.pages.html import write_page
    from dims.commands.pages.read import read_page
    from dims.errors import EntryError, ReportError

    beside = run / "report.html" if run.is_dir() else run.with_suffix(".html")
    try:
        page = write_page(read_page(run, problem), beside if out is None else out)
    except (EntryError, ReportError, OSError, TypeError, ValueError) as error:
        end(error)
    print(f"Report: {page} ({page.stat().st_size / 1e3:.0f} kB)")
