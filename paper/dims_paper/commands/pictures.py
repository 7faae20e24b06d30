"""`dims reproduce sphere | sinusoid | curve | surface-2d | breakdown`: pictures without a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dims_paper.commands.stages import stages
from dims_paper.schema import Run

SEEDED = {
    "sphere": "Figure 1: a geodesic leaves the sphere of minima, DiMS comes to rest on it.",
    "sinusoid": "Figure 2: functions through seven points by RLA and DiMS, and their losses.",
    "breakdown": "DiMS draws at rest in distinct sets of minima, beside a geodesic.",
}
FIXED = {
    "curve": "The schematic: a curve on the loss manifold and its path in parameter space.",
    "surface-2d": "Four dynamics from two start velocities, along a valley and across it.",
}

Quick = Annotated[bool, typer.Option(help="Fewer points and a shorter time.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the start velocities.")]
Out = Annotated[
    Path | None, typer.Option(help="Folder for results and figures; runs/NAME without it.")
]


def add_pictures(reproduce: typer.Typer) -> None:
    """One command each; the two without randomness have no seed."""
    for name, text in SEEDED.items():
        reproduce.command(name, help=_help(name, text))(_seeded(name))
    for name, text in FIXED.items():
        reproduce.command(name, help=_help(name, text))(_fixed(name))


def _help(name: str, text: str) -> str:
    return f"{text}\n\nExample: dims reproduce {name} --quick"


def _seeded(name: str) -> Callable[..., None]:
    def command(quick: Quick = False, seed: Seed = 0, out: Out = None) -> None:
        _run(name, quick, out, seed=seed)

    return command


def _fixed(name: str) -> Callable[..., None]:
    def command(quick: Quick = False, out: Out = None) -> None:
        _run(name, quick, out)

    return command


def _run(name: str, quick: bool, out: Path | None, **options: int) -> None:
    from dims_paper.experiments.toys import PICTURES, run_picture

    settings = replace(PICTURES[name], **options)
    folder = Path("runs") / name if out is None else out
    if quick:
        settings, folder = settings.quick(), folder.with_name(folder.name + "_quick")
    console = Console()
    with stages(console) as status:
        run = run_picture(settings, folder, status.update)
    write_pictures(run, folder, console)
    console.print(f"Results: {folder}")


def write_pictures(run: Run, folder: Path, console: Console) -> None:
    """The figure of a result beside it, PNG and PDF."""
    from dims_paper.figures import write_figure

    for path in write_figure(run, folder / run.experiment):
        console.print(f"Figure: {path}")
