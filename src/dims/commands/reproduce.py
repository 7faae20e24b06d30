"""`dims reproduce`: the paper's experiments."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

__all__ = ["reproduce"]

reproduce = typer.Typer(help="Run the paper's experiments and put its numbers beside ours.")


@reproduce.callback()
def root() -> None:
    """Run the paper's experiments and put its numbers beside ours."""


@reproduce.command()
def uci(
    dataset: Annotated[
        list[str] | None, typer.Option(help="One of the six sets; may be repeated. All without it.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Splits and networks for each set.")] = 5,
    quick: Annotated[bool, typer.Option(help="A minute: one seed, few epochs and draws.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the results; finished runs stay.")] = Path(
        "runs/uci"
    ),
) -> None:
    """Six classification sets: MAP, LA, LinLA, RLA and DiMS, test and training tables.

    Example: dims reproduce uci --dataset glass --quick
    """
    from dataclasses import replace

    from dims.data.uci import UCI_NAMES
    from dims.experiments import uci as experiment
    from dims.experiments.comparison import compare, write_csv

    settings = experiment.UciSettings(seeds=seeds)
    if dataset:
        for name in dataset:
            if name not in UCI_NAMES:
                raise typer.BadParameter(f"{name!r} is unknown; there are {', '.join(UCI_NAMES)}")
        settings = replace(settings, datasets=tuple(dataset))
    if quick:
        settings, out = experiment.quick(settings), out.with_name(out.name + "_quick")
    console = Console()
    began = time.perf_counter()
    with console.status("starting") as status:
        runs = experiment.run_uci(settings, out, lambda text: status.update(text))
    cells = [
        cell
        for table in ("tab:uci_test", "tab:uci_train")
        for cell in compare(table, runs, experiment.METRIC_NAMES)
        if cell.dataset in settings.datasets and cell.verdict != "not run"
    ]
    write_csv(cells, out / "comparison.csv")
    shown = Table(title="Test NLL of a draw, mean over seeds (paper's in its own settings)")
    for column in ("set", "method", "paper", "ours", "verdict"):
        shown.add_column(column)
    for cell in cells:
        if cell.metric == "nll" and cell.split == "test":
            name = cell.method if cell.eta0 is None else f"{cell.method} ({cell.eta0:g})"
            verdict = "quick run" if quick else cell.verdict
            shown.add_row(cell.dataset, name, f"{cell.paper:.3f}", f"{cell.ours:.3f}", verdict)
    console.print(shown)
    took = time.perf_counter() - began
    console.print(f"All cells: {out / 'comparison.csv'} ({took:.0f} s)")
