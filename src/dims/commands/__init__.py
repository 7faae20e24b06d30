"""The command line: one file for each sub-command; `pages` writes the HTML reports.

Other packages add commands through the entry point group `dims.commands`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import typer

from dims.commands.compare import compare
from dims.commands.exits import end
from dims.commands.init import init
from dims.commands.report import report
from dims.commands.sample import sample

__all__ = ["app"]

app = typer.Typer(
    name="dims", no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False
)


@app.callback()
def root(
    source: Annotated[
        list[str] | None,
        typer.Option("--import", help="A file.py or module with your metrics or likelihoods."),
    ] = None,
) -> None:
    """Sample the minima of neural-network losses by dissipative Riemannian mechanics.

    Exit codes: 0 all well, 1 could not go on, 2 bad input, 3 some draws failed, 130 stopped.

    Example: dims init my_run.py
    """
    if not source:
        return
    from dims.commands.entry import import_source  # it imports torch, which takes a second
    from dims.errors import EntryError

    for each in source:
        try:
            import_source(each, "--import")
        except EntryError as error:
            end(error)


@app.command(hidden=True)
def bench() -> None:
    """Say where the benchmark of the solvers is now."""
    end("dims bench has moved: in a clone, python benchmarks/solver_speed.py --help")


app.command()(compare)
app.command()(init)
app.command()(report)
app.command()(sample)

for entry in sorted(entry_points(group="dims.commands"), key=lambda entry: entry.name):
    command = entry.load()
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=entry.name)
    else:
        app.command(entry.name)(command)
