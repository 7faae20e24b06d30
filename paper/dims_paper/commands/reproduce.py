"""`dims reproduce`: the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dims_paper.commands.images import mnist
from dims_paper.commands.pictures import add_pictures, write_pictures
from dims_paper.commands.stages import stages

if TYPE_CHECKING:
    from dims_paper.experiments.additional import AdditionalSettings
    from dims_paper.experiments.problem import Problem
    from dims_paper.schema import Run


Quick = Annotated[bool, typer.Option("--quick", help="A minute; results go to OUT_quick.")]
Seed = Annotated[int, typer.Option(min=0, help="Of training and draws.")]
Device = Annotated[str, typer.Option(help="Where draws are made: cpu or cuda.")]
Out = Annotated[Path, typer.Option(help="Folder for the results; finished runs stay.")]
Additional = Annotated[
    bool,
    typer.Option(
        "--additional-baselines",
        help="Deep ensemble, SWAG, our defaults and the reference solver instead.",
    ),
]

reproduce = typer.Typer(no_args_is_help=True)


@reproduce.callback()
def root() -> None:
    """Run the paper's experiments and put its numbers beside ours.

    Example: dims reproduce snelson --quick
    """


@reproduce.command()
def uci(
    dataset: Annotated[
        list[str] | None, typer.Option(help="One of the six sets; may be repeated. All without it.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Splits and networks for each set.")] = 5,
    quick: Quick = False,
    clean: Annotated[bool, typer.Option("--clean", help="Whole tables.")] = False,
    engine: Annotated[
        str | None, typer.Option(help="ray: sets and seeds at once on all cores or a cluster.")
    ] = None,
    additional: Additional = False,
    out: Out = Path("runs/uci"),
) -> None:
    """Six classification sets: MAP, LA, LinLA, RLA and DiMS, test and training tables.

    Example: dims reproduce uci --dataset glass --quick
    """
    from dims.errors import EngineError
    from dims_paper.comparison import cells_table, compare, comparison_table
    from dims_paper.datasets.uci import UCI_NAMES
    from dims_paper.experiments import uci as experiment

    if additional and engine is not None:
        raise typer.BadParameter("--additional-baselines runs here only; leave --engine out")
    for name in dataset or ():
        if name not in UCI_NAMES:
            raise typer.BadParameter(f"{name!r} is unknown; there are {', '.join(UCI_NAMES)}")
    settings = experiment.UciSettings(seeds=seeds, datasets=tuple(dataset or UCI_NAMES))
    if clean:
        settings, out = replace(settings, protocol="clean"), _marked(out, "clean")
    if quick:
        settings, out = experiment.quick(settings), _marked(out, "quick")
    console = Console()
    if additional:
        problems = experiment.problems_of(settings)
        _run_additional(experiment.ADDITIONAL, "test", quick, console, out, *problems)
        return
    with stages(console) as status:
        try:
            runs = experiment.run_uci(settings, out, status.update, engine)
        except (ValueError, EngineError) as error:
            raise typer.BadParameter(str(error)) from error
    cells = [
        cell
        for table in ("tab:uci_test", "tab:uci_train")
        for cell in compare(table, runs, experiment.METRIC_NAMES)
        if cell.dataset in settings.datasets and cell.verdict != "not run"
    ]
    cells_table(cells).write_csv(out / "comparison.csv")
    title = "Test NLL of a draw: paper → ours, mean over seeds" + (" (quick run)" if quick else "")
    shown = [cell for cell in cells if cell.split == "test"]
    replace(comparison_table(shown, ["nll"]), title=title).show(console)
    console.print(f"All cells: {out / 'comparison.csv'}")


@reproduce.command()
def banana(
    quick: Quick = False,
    seed: Seed = 0,
    device: Device = "cpu",
    additional: Additional = False,
    out: Out = Path("runs/banana"),
) -> None:
    """Two interleaved classes: MAP, LA, LinLA, RLA and DiMS beside the paper's table.

    Example: dims reproduce banana --quick
    """
    from dims_paper.comparison import cells_table, compare, comparison_table
    from dims_paper.experiments import banana as experiment

    settings = experiment.BananaSettings(seed=seed, device=device)
    if quick:
        settings, out = experiment.quick(settings), _marked(out, "quick")
    console = Console()
    if additional:
        problem = experiment.problem_of(settings)
        _run_additional(experiment.ADDITIONAL, "test", quick, console, out, problem)
        return
    run = _with_stages(console, lambda say: experiment.run_banana(settings, out, say))
    cells = compare("tab:banana-classification", [run], experiment.METRIC_NAMES)
    cells_table(cells).write_csv(out / "comparison.csv")
    ran = [cell for cell in cells if cell.verdict != "not run"]
    title = "Banana, mean over draws: paper → ours (its errors are standard deviations)"
    metrics = list(dict.fromkeys(cell.metric for cell in ran))
    replace(comparison_table(ran, metrics), title=title).show(console)
    write_pictures(run, out, console)
    _show([run], "test", console, out)


@reproduce.command()
def snelson(
    quick: Quick = False,
    hessian: Annotated[
        bool, typer.Option("--hessian", help="Exact Hessian instead of GGN.")
    ] = False,
    random: Annotated[
        bool, typer.Option("--random", help="Start from untrained weights, η₀ = 1.")
    ] = False,
    seed: Seed = 0,
    device: Device = "cpu",
    additional: Additional = False,
    out: Out = Path("runs/snelson"),
) -> None:
    """Regression with a gap: how well each method fits, and how unsure it is where.

    Example: dims reproduce snelson --quick
    """
    from dims_paper.experiments import snelson as experiment

    if random and additional:
        raise typer.BadParameter("--additional-baselines needs a trained network; no --random")
    kind = "hessian" if hessian else "ggn"
    settings = experiment.SnelsonSettings(seed=seed, curvature_kind=kind, device=device)
    if random:
        settings = experiment.random_start(settings)
    if quick:
        settings, out = experiment.quick(settings), _marked(out, "quick")
    console = Console()
    if additional:
        problem = experiment.problem_of(settings)
        _run_additional(experiment.ADDITIONAL, "gap", quick, console, out, problem)
        return
    run = _with_stages(console, lambda say: experiment.run_snelson(settings, out, say))
    write_pictures(run, out, console)
    _show([run], "gap", console, out)


def _marked(out: Path, mark: str) -> Path:
    """A folder of its own for runs that are not those of the paper."""
    return out.with_name(f"{out.name}_{mark}")


def _show(runs: Sequence[Run], part: str, console: Console, out: Path) -> None:
    from dims_paper.tables import score_table

    score_table(runs, part, str(runs[0].experiment)).show(console)
    console.print(f"Results: {out}")


def _with_stages(console: Console, run: Callable[[Callable[[str], None]], Run]) -> Run:
    """A run that says on the console how far it is."""
    with stages(console) as status:
        return run(status.update)


def _run_additional(
    settings: AdditionalSettings,
    part: str,
    quick: bool,
    console: Console,
    out: Path,
    *problems: Problem,
) -> None:
    from dims_paper.experiments.additional import run_additional

    how = settings.quick() if quick else settings
    with stages(console) as status:
        runs = [run_additional(p, how, out, p.prefixed(status.update)) for p in problems]
    _show(runs, part, console, out)


reproduce.command()(mnist)
add_pictures(reproduce)
