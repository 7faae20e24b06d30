"""`dims reproduce mnist`: LeNet on images, one part at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dims_paper.commands.stages import stages

CHOICES = {
    "part": ("subset", "full", "growing", "peers", "ood", "compare"),
    "dataset": ("mnist", "fashion_mnist"),
    "activation": ("tanh", "gelu"),
    "solver": ("rattle", "dopri5"),
}


def _text(help: str) -> Any:
    """An option whose help fits on a line: no default beside it, no bounds."""
    return typer.Option(help=help, show_default=False, metavar="")


Varied = Annotated[float | None, _text("Of full and growing.")]


def mnist(
    part: Annotated[str, _text("subset, full, growing, peers, ood or compare.")] = "subset",
    dataset: Annotated[str, _text("mnist or fashion_mnist.")] = "mnist",
    seed: Annotated[int, _text("0 to 2 have the paper's η₀ and t₁.")] = 0,
    curvature: Annotated[str, _text("low_rank, kronecker or diagonal (subset).")] = "low_rank",
    activation: Annotated[str, _text("tanh or gelu.")] = "tanh",
    wide: Annotated[bool, typer.Option("--wide", help="A million parameters.")] = False,
    draws: Annotated[int | None, _text("Instead of 100, 20 or 10.")] = None,
    until: Annotated[float | None, _text("Of full and growing: t₁.")] = None,
    effective_points: Varied = None,
    friction: Varied = None,
    gravity: Varied = None,
    images: Annotated[list[int] | None, _text("Of growing: in each segment.")] = None,
    solver: Annotated[str, _text("Of ood: rattle or dopri5.")] = "rattle",
    quick: Annotated[bool, typer.Option("--quick", help="A minute, to _quick.")] = False,
    device: Annotated[str, _text("cpu or cuda; whole runs need a GPU.")] = "cpu",
    out: Annotated[Path, _text("Folder; finished runs stay.")] = Path("runs/mnist"),
) -> None:
    """LeNet on images: the paper's tables (subset), all images (full), ensembles (peers).

    Example: dims reproduce mnist --quick
    """
    from dims_paper.experiments.images import settings as known

    given = {"part": part, "dataset": dataset, "activation": activation, "solver": solver}
    for name, value in given.items():
        if value not in CHOICES[name]:
            there = ", ".join(CHOICES[name])
            raise typer.BadParameter(f"{name} {value!r} is unknown; there are {there}")
    network = known.ImageSettings(dataset, seed, activation, wide, device=device)
    how = known.part_settings(part, seed, curvature)
    if isinstance(how, known.FullSettings):
        varied = {"effective_points": effective_points, "friction": friction, "gravity": gravity}
        how = how if until is None else how.until(until)
        how = how.study(**{name: value for name, value in varied.items() if value is not None})
        how = replace(how, images=tuple(images)) if images else how
    if draws is not None:
        how = replace(how, draws=draws)
    if quick:
        network, how = known.quick(network), known.quick_part(how)
        out = out.with_name(out.name + "_quick")
    _run(part, network, how, solver, out, compared=part == "subset" and not quick)


def _run(part: str, network: Any, how: Any, solver: str, out: Path, compared: bool) -> None:
    """Run a part and show its rows, beside the paper's numbers where they are comparable."""
    from dims_paper.comparison import cells_table, compare_images
    from dims_paper.experiments.images import parts, scores
    from dims_paper.tables import score_table

    console = Console()
    if part == "compare":
        scores.compare_parts(network, out)
    else:
        with stages(console) as status:
            if part == "ood":
                run = parts.run_ood(network, how, out, status.update, solver)
            else:
                run = parts.run_part(network, how, out, status.update)
        score_table([run], "test", network.dataset).show(console)
        if compared:
            cells = [cell for cell in compare_images([run]) if cell.verdict != "not run"]
            cells_table(cells).write_csv(out / f"{run.part}.csv")
            console.print(f"Beside the paper: {out / f'{run.part}.csv'}")
    console.print(f"Results: {out}")
