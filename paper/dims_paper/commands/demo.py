"""`dims demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dims.mechanics.batch import Progress as RowProgress
from dims_paper.tables import Table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    draws: Annotated[int, typer.Option(min=2, help="Draws by each method.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Seed of training and draws.")] = 0,
) -> None:
    """Seven points of a sine: train a network, draw functions by RLA and DiMS, make a figure.

    Example: dims demo --out demo --draws 30
    """
    from dims_paper.experiments.sinusoid import DemoSettings, demo_table, run_demo, sinusoid_run
    from dims_paper.figures import write_figure

    console = Console()
    started = time.perf_counter()
    console.print("Training a network on 7 points, then drawing functions that fit them.")
    with Progress(
        TextColumn("{task.description:<48}"), BarColumn(), TimeRemainingColumn(), console=console
    ) as bars:
        tasks = {name: bars.add_task(name, total=1.0) for name in ("RLA", "DiMS")}

        def report(name: str, now: RowProgress) -> None:
            part = (now.done + (now.rows - now.done) * now.mean_time / now.end_time) / now.rows
            text = f"{name}: {now.done}/{now.rows} draws done, T {now.mean_kinetic_energy:.2g}, "
            bars.update(tasks[name], completed=part, description=text + f"L {now.mean_loss:.4g}")

        settings = DemoSettings(draws=draws, seed=seed)
        result = run_demo(settings, report)
    title = "The same start, the same velocities"
    Table(("", "RLA", "DiMS"), demo_table(result), title).show(console)
    figure, _ = write_figure(sinusoid_run(result, settings), out / "demo")
    console.print(f"Figure: {figure}  ({time.perf_counter() - started:.0f} s)")
