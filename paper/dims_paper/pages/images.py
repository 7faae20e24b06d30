"""Tables of images: beside the paper's numbers, and beyond them on all images and in studies."""

from __future__ import annotations

from collections.abc import Callable

from dims_paper.comparison import comparison_table, verdicts_table
from dims_paper.experiments.images.settings import SIGNS
from dims_paper.pages.results import Results
from dims_paper.schema import AUROC, ENSEMBLE, PER_DRAW, Row, Run
from dims_paper.tables import Table, is_better_high

IN_DISTRIBUTION = ("acc", "nll", "br", "ece", "mce")  # how the metrics of those tables begin


def _tables(table: str, metrics: tuple[str, ...]) -> Callable[[Results], str]:
    """A table of the paper for each dataset, in the metrics that begin so."""

    def make(results: Results) -> str:
        chosen = [c for c in results.image_cells if c.table == table and c.verdict != "not run"]
        parts = []
        for dataset in dict.fromkeys(cell.dataset for cell in chosen):
            own = [cell for cell in chosen if cell.dataset == dataset]
            shown = [m for m in dict.fromkeys(c.metric for c in own) if m.startswith(metrics)]
            parts.append(comparison_table(own, shown).markdown())
        return "\n\n".join(parts)

    return make


def _seeds(results: Results) -> str:
    """The tables of the paper's other two seeds."""
    metrics = (*IN_DISTRIBUTION, "auroc")
    parts = [f"Seed {s}:\n\n{_tables(f'tab:id-seed{s}', metrics)(results)}" for s in (1, 2)]
    return "\n\n".join(parts)


MARKS: dict[str, Callable[[Results], Table | str]] = {
    "images-id": _tables("tab:id-main", IN_DISTRIBUTION),
    "images-ood": _tables("tab:ood-main", ("auroc",)),
    "images-curvature": _tables("tab:hessian-influence", IN_DISTRIBUTION),
    "images-verdicts": lambda results: verdicts_table(results.image_cells),
    "images-seeds": _seeds,
}


def ood_study(results: Results) -> Table:
    """AUROC of single draws: the paper's, ours from test images, ours from training images."""
    runs = results.runs("mnist_ood")
    metrics = [m for m in runs[0].rows[0].scores["test"][PER_DRAW] if m.startswith("auroc_")]
    names = [metric.removeprefix("auroc_") for metric in metrics]
    lines = []
    for run in sorted(runs, key=lambda run: (run.seed, run.facts["solver"] != "rattle")):
        solver = run.facts["solver"]
        for row in run.rows:
            if solver != "rattle" and row.method == "MAP":
                continue  # it does not move
            method = row.method if solver == "rattle" else f"{row.method} ({solver})"
            cells = [
                f"{_paper_auroc(results, int(run.seed or 0), row, name):.3f} → "
                f"{row.metric('test', metric):.3f}, {row.metric('training', metric):.3f}"
                for name, metric in zip(names, metrics, strict=True)
            ]
            time = "" if row.t1 is None else f"{row.t1:g}"
            start = [f"{row.metric('test', metric):.3f}" for metric in ("accuracy", "nll")]
            lines.append([str(run.seed), method, time, *start, *cells])
    shown = [name.replace("_", " ") for name in names]
    return Table(["seed", "method", "t₁", "accuracy", "NLL", *shown], lines)


def _paper_auroc(results: Results, seed: int, row: Row, name: str) -> float:
    wanted = (f"tab:id-seed{seed}", "mnist", row.method, row.t1, f"auroc {name}")
    for cell in results.image_cells:
        if (cell.table, cell.dataset, cell.method, cell.t1, cell.metric) == wanted:
            return cell.paper
    raise ValueError(f"mnist_ood.json: the paper has no {wanted}; gather complete runs only")


SHOWN_TIMES = (None, 1.0, 5.0, 20.0, 25.0, 50.0, 100.0)  # of the many at which draws are looked at


def rows_tables(results: Results) -> str:
    """Rows of ours: one draw, the ensemble, and what they cost.

    The paper's settings of other seeds than 0 stand in a table of their own.
    """
    # Motion on a few images alone has a choice of curvatures: the paper's settings.
    shown = [
        run for run in results.runs("mnist") if not run.seed or "curvature" not in run.settings
    ]
    tables = []
    for dataset in ("mnist", "fashion_mnist"):
        runs = [run for run in shown if run.dataset == dataset]
        ood = list(runs[0].rows[0].ood)
        lines: dict[str, list[str]] = {}
        for run in runs:
            for row in run.rows:
                name = _row_name(run, row)
                if row.t1 in SHOWN_TIMES and name not in lines:  # MAP is in every part
                    lines[name] = [name, str(row.draws or 1), *_numbers(run, row, ood)]
        tables.append(Table([dataset, "draws", *_heading(ood)], list(lines.values())).markdown())
    return "\n\n".join(tables)


def _row_name(run: Run, row: Row) -> str:
    settings = run.settings
    curvature = "" if row.method == "MAP" else settings.get("curvature", "")
    marks = [
        "wide" if settings.get("wide") else "",
        "GELU" if settings.get("activation") == "gelu" else "",
        {"kronecker": "KFAC", "diagonal": "diagonal"}.get(curvature, ""),
        f"seed {run.seed}" if run.seed else "",
        "" if row.t1 is None else f"t₁ = {row.t1:g}",
    ]
    return ", ".join([row.method, *filter(None, marks)])


def _heading(ood: list[str]) -> list[str]:
    # Spaces let the names of the sets wrap: with underscores the widest table does not fit.
    shown = (f"AUROC {name}".replace("_", " ") for name in ood)
    return ["accuracy", "NLL", "ensemble: accuracy", "NLL", "ECE", *shown, "seconds"]


def _numbers(run: Run, row: Row, ood: list[str]) -> list[str]:
    alone, together = row.scores["test"][PER_DRAW], row.scores["test"][ENSEMBLE]
    fit = run.facts.get("fit_seconds", 0) if row.t1 is not None else 0  # part of what motion costs
    unknown = row.seconds is None or run.facts["accelerator"] == "CPU"
    return [
        f"{alone['accuracy']:.4f}",
        f"{alone['nll']:.4g}",
        f"{together['accuracy']:.4f}",
        f"{together['nll']:.4g}",
        f"{together['ece']:.4f}",
        *(f"{row.ood[name][ENSEMBLE][AUROC]:.3f}" for name in ood),
        "" if unknown else f"{(row.seconds or 0) + fit:.0f}",
    ]


def study_table(results: Results) -> Table:
    """Few draws of MNIST with other numbers of effective points, friction and gravity."""

    def images(run: Run) -> int:
        """How many images the motion was on at its end."""
        return (run.settings["images"] or [60_000])[-1] or 60_000

    runs = results.runs("mnist_study")
    ood = list(runs[0].rows[0].ood)
    runs.sort(key=lambda run: (-images(run), [run.settings[name] for name in SIGNS]))
    lines = [
        [str(images(run)), *(f"{run.settings[name]:g}" for name in SIGNS), f"{row.t1:g}",
         *_numbers(run, row, ood)]
        for run in runs
        for row in run.rows
        if row.t1 in SHOWN_TIMES and row.t1 is not None
    ]  # fmt: skip
    return Table(["images", *SIGNS.values(), "t₁", *_heading(ood)], lines)


def difference_tables(results: Results) -> str:
    """The full runs less MAP and less ensembles, with intervals; + and - where 0 is outside."""
    tables = []
    for title, differences in results.differences():
        entries = [
            entry
            for entry in differences
            if entry.method.startswith(("DiMS full", "DiMS growing"))
            and (entry.against != "MAP" or "(" not in entry.method)
        ]
        if not entries:
            continue
        names = list(entries[0].intervals)
        shown = [n.replace("per_sample_", "one draw: ").replace("ensemble_", "") for n in names]
        lines = [
            [f"{entry.method}, t₁ = {entry.t1:g}, less {entry.against}",
             *(_difference(name, entry.intervals[name]) for name in names)]
            for entry in entries
        ]  # fmt: skip
        tables.append(Table([title, *shown], lines).markdown())
    return "\n\n".join(tables).replace("_", " ")


def _difference(name: str, entry: dict[str, float]) -> str:
    low, high = entry["low"], entry["high"]
    metric = name.removeprefix("per_sample_").removeprefix("ensemble_")
    better = "+" if (low > 0) == is_better_high(metric) else "-"
    verdict = "=" if low <= 0 <= high else better
    return f"{entry['difference']:+.4f} ({low:+.4f}, {high:+.4f}) {verdict}"
