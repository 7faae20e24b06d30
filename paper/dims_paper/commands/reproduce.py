"""`dims reproduce`: the paper's experiments."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dims.commands.stages import stages
from dims_paper.commands.pictures import add_pictures, write_pictures

__all__ = ["reproduce"]

More = Annotated[
    bool,
    typer.Option(
        "--more", help="Rows the paper has not: ensemble, SWAG, our defaults, its solver."
    ),
]

AUROC = "auroc_max_probability"
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
    quick: Annotated[bool, typer.Option(help="A minute: one seed, few epochs and draws.")] = False,
    clean: Annotated[bool, typer.Option(help="Whole tables, not the published files.")] = False,
    engine: Annotated[
        str | None, typer.Option(help="ray: sets and seeds at once on all cores or a cluster.")
    ] = None,
    more: More = False,
    out: Annotated[Path, typer.Option(help="Folder for the results; finished runs stay.")] = Path(
        "runs/uci"
    ),
) -> None:
    """Six classification sets: MAP, LA, LinLA, RLA and DiMS, test and training tables.

    Example: dims reproduce uci --dataset glass --quick
    """
    from dataclasses import replace

    from dims.errors import EngineError
    from dims_paper.datasets.uci import UCI_NAMES
    from dims_paper.experiments import uci as experiment
    from dims_paper.experiments.comparison import compare, write_csv
    from dims_paper.experiments.more_settings import MoreSettings

    if more and engine is not None:
        raise typer.BadParameter("--more runs here only; leave --engine out")
    settings = experiment.UciSettings(seeds=seeds)
    if clean:
        settings, out = replace(settings, protocol="clean"), out.with_name(out.name + "_clean")
    if dataset:
        for name in dataset:
            if name not in UCI_NAMES:
                raise typer.BadParameter(f"{name!r} is unknown; there are {', '.join(UCI_NAMES)}")
        settings = replace(settings, datasets=tuple(dataset))
    if quick:
        settings, out = experiment.quick(settings), out.with_name(out.name + "_quick")
    console = Console()
    began = time.perf_counter()
    if more:
        rows = MoreSettings().quick() if quick else MoreSettings()
        with stages(console) as status:
            found = experiment.run_uci_more(settings, rows, out, status.update)
        show_more(found, "test", console, out)
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


@reproduce.command()
def banana(
    quick: Annotated[bool, typer.Option(help="A minute: few epochs and draws.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of training and draws.")] = 0,
    device: Annotated[str, typer.Option(help="Where draws are made: cpu or cuda.")] = "cpu",
    more: More = False,
    out: Annotated[Path, typer.Option(help="Folder for the results; finished runs stay.")] = Path(
        "runs/banana"
    ),
) -> None:
    """Two interleaved classes: MAP, LA, LinLA, RLA and DiMS beside the paper's table.

    Example: dims reproduce banana --quick
    """
    from dims_paper.experiments import banana as experiment
    from dims_paper.experiments.comparison import compare, write_csv

    settings = experiment.BananaSettings(seed=seed, device=device)
    if quick:
        settings, out = experiment.quick(settings), out.with_name(out.name + "_quick")
    console = Console()
    if more:
        _run_more(experiment, settings, "test", quick, console, out)
        return
    with stages(console) as status:
        run = experiment.run_banana(settings, out, status.update)
    cells = compare("tab:banana-classification", [run], experiment.METRIC_NAMES)
    write_csv(cells, out / "comparison.csv")
    shown = Table(title="Banana, mean over draws (its errors are standard deviations)")
    for column in ("method", "metric", "paper", "ours", "of the mean predictive"):
        shown.add_column(column)
    for cell in cells:
        if cell.verdict != "not run":
            numbers = (f"{cell.paper:.3f}", f"{cell.ours:.3f}", f"{cell.ensemble:.3f}")
            shown.add_row(cell.method, cell.metric, *numbers)
    console.print(shown)
    write_pictures(run, out, console)
    console.print(f"Results: {out}")


@reproduce.command()
def snelson(
    quick: Annotated[bool, typer.Option(help="A minute: few epochs and draws.")] = False,
    hessian: Annotated[bool, typer.Option(help="Exact Hessian instead of GGN.")] = False,
    random: Annotated[bool, typer.Option(help="Start from untrained weights, η₀ = 1.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of training and draws.")] = 0,
    device: Annotated[str, typer.Option(help="Where draws are made: cpu or cuda.")] = "cpu",
    more: More = False,
    out: Annotated[Path, typer.Option(help="Folder for the results; finished runs stay.")] = Path(
        "runs/snelson"
    ),
) -> None:
    """Regression with a gap: how well each method fits, and how unsure it is where.

    Example: dims reproduce snelson --quick
    """
    from dims_paper.experiments import snelson as experiment

    if random and more:
        raise typer.BadParameter("--more needs a trained network; leave --random out")
    kind = "hessian" if hessian else "ggn"
    settings = experiment.SnelsonSettings(seed=seed, curvature_kind=kind, device=device)
    if random:
        settings = experiment.random_start(settings)
    if quick:
        settings, out = experiment.quick(settings), out.with_name(out.name + "_quick")
    console = Console()
    if more:
        _run_more(experiment, settings, "gap", quick, console, out)
        return
    with stages(console) as status:
        run = experiment.run_snelson(settings, out, status.update)
    shown = Table(title=f"Snelson, {run['draws']} draws, σ = {run['noise_std']:.3f}")
    for column in ("method", "NLL on the data", "NLL in the gap", "spread: gap", "data", "ratio"):
        shown.add_column(column)
    for row in run["rows"]:
        gap, data = row["spread_gap"], row["spread_data"]
        shown.add_row(
            row["method"],
            f"{row['train']['per_sample']['nll']:.3f}",
            f"{row['gap']['per_sample']['nll']:.3f}",
            f"{gap:.3f}",
            f"{data:.4f}",
            f"{gap / data:.1f}" if data > 0 else "-",
        )
    console.print(shown)
    write_pictures(run, out, console)
    console.print(f"Results: {out}")


def show_more(runs: list[dict[str, Any]], split: str, console: Console, out: Path) -> None:
    """The rows that the paper has not, in both readings; what was too dear says so."""
    shown = Table(title=f"NLL ({split})")
    for column in ("set", "seed", "method", "of a draw", "averaged", "seconds", ""):
        shown.add_column(column)
    for run in runs:
        for row in run["rows"]:
            readings = (row.get(split, {}).get(name) for name in ("per_sample", "ensemble"))
            numbers = ["-" if scores is None else f"{scores['nll']:.3f}" for scores in readings]
            shown.add_row(
                run["dataset"],
                str(run["seed"]),
                row["method"] if row["eta0"] is None else f"{row['method']} ({row['eta0']:g})",
                *numbers,
                "-" if row["seconds"] is None else f"{row['seconds']:.0f}",
                row.get("note", ""),
            )
    console.print(shown)
    console.print(f"Results: {out}")


@reproduce.command()
def mnist(
    part: Annotated[
        str,
        typer.Option(help="subset (the paper's), full (all images), growing or peers."),
    ] = "subset",
    dataset: Annotated[str, typer.Option(help="mnist or fashion_mnist.")] = "mnist",
    seed: Annotated[int, typer.Option(min=0, help="0 to 2 have the paper's η₀ and t₁.")] = 0,
    curvature: Annotated[
        str, typer.Option(help="Of the subset: low_rank, kronecker or diagonal.")
    ] = "low_rank",
    wide: Annotated[bool, typer.Option(help="A million parameters instead of 44 426.")] = False,
    draws: Annotated[int | None, typer.Option(min=1, help="Instead of 100 or 20.")] = None,
    quick: Annotated[bool, typer.Option(help="A minute: few images, epochs and draws.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda; whole runs want a GPU.")] = "cpu",
    out: Annotated[Path, typer.Option(help="Folder for the results; finished runs stay.")] = Path(
        "runs/mnist"
    ),
) -> None:
    """LeNet on images: the paper's tables, the whole training set, and deep ensembles.

    Example: dims reproduce mnist --quick
    """
    from dataclasses import replace

    from dims_paper.experiments import mnist as experiment
    from dims_paper.experiments import mnist_settings
    from dims_paper.experiments.comparison import write_csv
    from dims_paper.experiments.image_scores import FOREIGN
    from dims_paper.experiments.mnist_tables import compare_images

    runs: dict[str, tuple[Any, Any]] = {
        "subset": (experiment.run_subset, mnist_settings.SubsetSettings(curvature=curvature)),
        "full": (experiment.run_full, mnist_settings.FullSettings()),
        "growing": (experiment.run_full, mnist_settings.GROWING),
        "peers": (experiment.run_peers, mnist_settings.PeerSettings()),
    }
    choices: list[tuple[str, str, Any]] = [("part", part, runs), ("dataset", dataset, FOREIGN)]
    for given, name, known in choices:
        if name not in known:
            raise typer.BadParameter(f"{given} {name!r} is unknown; there are {', '.join(known)}")
    settings = mnist_settings.ImageSettings(dataset, seed, wide=wide, device=device)
    run_part, how = runs[part]
    if part == "subset" and seed in mnist_settings.SEED_RUNS:
        friction, times = mnist_settings.SEED_RUNS[seed]
        how = replace(how, friction=friction, times=times)
    if draws is not None:
        how = replace(how, draws=draws)
    if quick:
        settings, how = mnist_settings.quick(settings), mnist_settings.quick_part(how)
        out = out.with_name(out.name + "_quick")
    console = Console()
    with stages(console) as status:
        run = run_part(settings, how, out, status.update)
    title = f"{dataset}: accuracy and NLL of one draw and of all averaged; AUROC of all"
    shown = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for column in ("method", "t₁", "accuracy", "NLL", "ECE", *FOREIGN[dataset]):
        shown.add_column(column.replace("_", "\n"))
    for row in run["rows"]:
        alone, together = row["test"]["per_sample"], row["test"]["ensemble"]
        shown.add_row(
            row["method"],
            "" if row["t1"] is None else f"{row['t1']:g}",
            f"{alone['accuracy']:.4f}\n{together['accuracy']:.4f}",
            f"{alone['nll']:.4g}\n{together['nll']:.4g}",
            f"{together['ece']:.3f}",
            *(f"{scores['ensemble'][AUROC]:.3f}" for scores in row["ood"].values()),
        )
    console.print(shown)
    if part == "subset" and not quick:
        cells = [cell for cell in compare_images([run]) if cell.verdict != "not run"]
        write_csv(cells, out / f"{run['part']}.csv")
        console.print(f"Beside the paper: {out / (run['part'] + '.csv')}")
    console.print(f"Results: {out}")


def _run_more(
    experiment: Any, settings: Any, reading: str, quick: bool, console: Console, out: Path
) -> None:
    """The rows of `--more` of an experiment with one network."""
    from dims_paper.experiments.more import run_more

    rows = experiment.MORE.quick() if quick else experiment.MORE
    with stages(console) as status:
        found = run_more(experiment.problem_of(settings), rows, out, status.update)
    show_more([found], reading, console, out)


add_pictures(reproduce)
