"""Sub-commands, one file each."""

from __future__ import annotations

import typer

from dims.commands.bench import bench
from dims.commands.data import data
from dims.commands.demo import demo
from dims.commands.init import init
from dims.commands.report import report
from dims.commands.reproduce import reproduce
from dims.commands.sample import sample

__all__ = ["app"]

app = typer.Typer(
    name="dims",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Sample the minima of neural-network losses by dissipative Riemannian mechanics.

    Exit codes: 0 all well, 1 could not go on, 2 bad input, 3 some draws failed, 130 stopped.

    Example: dims demo
    """


app.command()(bench)
app.command()(demo)
app.command()(init)
app.command()(report)
app.command()(sample)
app.add_typer(data, name="data")
app.add_typer(reproduce, name="reproduce")
