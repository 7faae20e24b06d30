"""Gather finished runs into `results/paper` and write the tables of docs/reproduction.md.

    python paper/programs/reproduction_page.py uci runs/uci
    python paper/programs/reproduction_page.py banana runs/banana
    python paper/programs/reproduction_page.py snelson runs/snelson
    python paper/programs/reproduction_page.py mnist runs/mnist
    python paper/programs/reproduction_page.py mnist_study runs/mnist_study
    python paper/programs/reproduction_page.py mnist_foreign runs/foreign
    python paper/programs/reproduction_page.py tables

All but the last keep what tables need of each run, in one small JSON file, and in another what
more_rows.py computed for it, if that is in the folder; the last writes the cells beside
the paper's (CSV) and the text between the marks of the page.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dims_paper.experiments import banana, uci
from dims_paper.experiments.comparison import Cell, compare, markdown, write_csv
from dims_paper.experiments.mnist_settings import SIGNS
from dims_paper.experiments.mnist_tables import AUROC, compare_images
from dims_paper.experiments.runs import load_runs
from dims_paper.join import joined

RESULTS, PAGE = Path("results/paper"), Path("docs/reproduction.md")
METRICS = ("accuracy", "nll", "brier", "ece", "mce", "auroc")
BULKY = ("evaluations", "energy_violation", "loss", "status", "verdict", "kinetic_ratio", "reached")
# Of each draw, and in no table.
NOT_SHOWN = ("gradient_norm", "smallest_eigenvalue", "kinetic_energy")
# What figures and reports need and tables do not; paper/programs/figures.py keeps it.
DRAWN_ROWS = ("curves", "mean", "std", "map", "calibration")
DRAWN = ("grid", "points", "map", "movies", "movie_grid", "trajectories", "landscape")


def gather(name: str, folder: Path) -> None:
    found = load_runs(folder)
    runs = [run for run in found if "rows" in run]
    for run in runs:
        for key in DRAWN:
            run.pop(key, None)
        for row in run["rows"]:
            _shorten(row)
            _shorten(row.get("rattle", {}))
    RESULTS.mkdir(parents=True, exist_ok=True)
    kinds = {name: [run for run in runs if "more" not in run]}
    kinds[f"{name}_more"] = [run for run in runs if "more" in run]
    kinds[f"{name}_differences"] = [run for run in found if "differences" in run]
    for kind, parts in kinds.items():
        if parts:  # a folder may hold one kind alone; the others stay as they are
            (RESULTS / f"{kind}.json").write_text(json.dumps(_rounded(parts)) + "\n")


def _shorten(row: dict[str, Any]) -> None:
    """Lists over draws become their mean or worst."""
    for key in (*DRAWN_ROWS, *NOT_SHOWN):
        row.pop(key, None)
    for key in BULKY:
        value = row.pop(key, None)
        if isinstance(value, float):
            row[key] = value
        elif value and key == "evaluations":
            row["evaluations"] = statistics.fmean(value)
        elif value and key == "energy_violation":
            row["energy_violation"] = max(value)
        elif value and key in ("status", "verdict"):
            row[key] = dict(Counter(value))
        elif value and key == "kinetic_ratio":
            row[key] = [min(value), max(value)]
        elif value and key == "reached":
            row[key] = min(value)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


def read(name: str) -> list[dict[str, Any]]:
    """The runs of an experiment with all their rows, the paper's and ours."""
    files = (RESULTS / f"{name}.json", RESULTS / f"{name}_more.json")
    return joined([run for file in files if file.exists() for run in json.loads(file.read_text())])


def uci_table(table: str) -> str:
    runs = uci.paper_runs(read("uci"))
    cells = compare(table, runs, uci.METRIC_NAMES)
    write_csv(cells, RESULTS / f"{table.removeprefix('tab:')}.csv")
    ours = uci_ours(runs, table.removeprefix("tab:uci_"))
    return markdown(cells, METRICS, ours) + "\n\n" + verdicts(cells)


def waveform_file() -> str:
    """The lines of waveform with the rows of the published file."""
    runs = [run for run in read("uci") if run["dataset"] == "waveform"]
    runs = [run for run in runs if run["protocol"] == "bnn-predictions"]
    cells = [c for c in compare("tab:uci_test", runs, uci.METRIC_NAMES) if c.dataset == "waveform"]
    return markdown(cells, METRICS, uci_ours(runs, "test"))


def is_ours(row: dict[str, Any]) -> bool:
    """Whether a row is one of a method that the paper has not, or of its solver once more."""
    return row["method"] in ("Ensemble", "SWAG", "DiMS defaults") or is_recipe(row)


def is_recipe(row: dict[str, Any]) -> bool:
    return row["method"].endswith("(recipe)")


def label(row: dict[str, Any]) -> str:
    """The name of a row, and how many of its draws a limit left."""
    eta0 = row.get("eta0")
    name = row["method"] if eta0 is None else f"{row['method']} ({eta0:g})"
    cut = "note" in row and row["draws"] > 0
    return f"{name}, {row['draws']} of {row['asked']} draws" if cut else name


def uci_ours(runs: list[dict[str, Any]], split: str) -> dict[str, list[str]]:
    """For each set the lines of methods that the paper has not: ours ± s.e., per-sample."""
    lines: dict[str, list[str]] = {}
    for dataset in dict.fromkeys(run["dataset"] for run in runs):
        rows = [row for run in runs if run["dataset"] == dataset for row in run["rows"]]
        for name in dict.fromkeys(label(row) for row in rows if is_ours(row)):
            same = [row for row in rows if label(row) == name]
            found = [row[split]["per_sample"] for row in same if split in row]
            if found:
                text = " | ".join(
                    with_error([scores[uci.METRIC_NAMES.get(m, m)] for scores in found])
                    for m in METRICS
                )
            else:
                text = " | ".join([same[0].get("note", "-"), *[""] * (len(METRICS) - 1)])
            lines.setdefault(dataset, []).append(f"| {dataset} | {name} | {text} |")
    return lines


def with_error(values: list[float]) -> str:
    mean = f"{statistics.fmean(values):.3f}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {statistics.stdev(values) / math.sqrt(len(values)):.3f}"


def verdicts(cells: list[Cell]) -> str:
    lines = ["| method | better | same | worse | not run |", "| --- | --- | --- | --- | --- |"]
    for method in dict.fromkeys(cell.method for cell in cells):
        count = Counter(cell.verdict for cell in cells if cell.method == method)
        numbers = [str(count[v]) for v in ("better", "same", "worse", "not run")]
        lines.append(f"| {method} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def uci_readings() -> str:
    """Test NLL of single draws and of the averaged predictive, mean over seeds."""
    runs = [
        {**run, "dataset": "waveform, 1 000 rows"} if run not in uci.paper_runs([run]) else run
        for run in read("uci")
    ]
    names = list(dict.fromkeys(label(row) for run in runs for row in run["rows"]))
    sets = list(dict.fromkeys(run["dataset"] for run in runs))
    lines = ["| method | " + " | ".join(sets) + " |", "| --- |" + " --- |" * len(sets)]
    for name in names:
        texts = []
        for dataset in sets:
            rows = [
                row["test"]
                for run in runs
                if run["dataset"] == dataset
                for row in run["rows"]
                if label(row) == name and "test" in row
            ]
            if not rows:
                texts.append("-")
                continue
            single = statistics.fmean(row["per_sample"]["nll"] for row in rows)
            joint = statistics.fmean(row["ensemble"]["nll"] for row in rows)
            texts.append(f"{single:.3f} / {joint:.3f}")
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def uci_averaged() -> str:
    """Test metrics of the averaged predictive, mean over sets and seeds; the recipe has few."""
    runs = [run for run in read("uci") if run["protocol"] == "bnn-predictions"]
    rows = [row for run in runs for row in run["rows"] if not is_recipe(row)]
    lines = ["| method | runs | " + " | ".join(METRICS) + " |", "| --- " * 8 + "|"]
    for name in dict.fromkeys(label(row) for row in rows):
        found = [row["test"]["ensemble"] for row in rows if label(row) == name]
        texts = [
            f"{statistics.fmean(scores[uci.METRIC_NAMES.get(m, m)] for scores in found):.3f}"
            for m in METRICS
        ]
        lines.append(f"| {name} | {len(found)} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def networks() -> str:
    """Whether the rows that were computed later are of the networks of the tables."""
    later = [run for name in ("uci", "banana", "snelson") for run in read(name) if _has_ours(run)]
    same = sum(run.get("same_network", False) for run in later)
    return f"Their networks, trained again, are those of the tables in {same} of {len(later)} runs."


def _has_ours(run: dict[str, Any]) -> bool:
    return any(is_ours(row) for row in run["rows"])


def solver_table() -> str:
    """Rows of the recipe and the same draws by rattle; seconds are of one core, for one draw."""
    lines = [
        "| set | method | draws | worst energy violation | T(end)/T(0) | gradients a draw | "
        "seconds a draw | test NLL | the recipe |",
        "| --- " * 9 + "|",
    ]
    for name in ("uci", "banana", "snelson"):
        for run in read(name):
            for row in filter(is_recipe, run["rows"]):
                lines.append(f"| {run['dataset']} | {label(row)} | {_solver_cells(row)} |")
    return "\n".join(lines)


def _solver_cells(row: dict[str, Any]) -> str:
    """Each cell: recipe, rattle."""
    geodesic = row["eta0"] is None
    sides = [(row, row["asked"])]  # all draws of a batch that was cut off took its time
    if "rattle" in row:
        sides.append((row["rattle"], row["rattle"].get("draws", row["draws"])))

    def cells(show: Callable[[dict[str, Any], int], str]) -> str:
        return ", ".join(show(side, count) for side, count in sides)

    def score(side: dict[str, Any], _: int) -> str:
        scores = side.get("test", side.get("gap"))
        return "-" if scores is None else f"{scores['per_sample']['nll']:.3g}"

    def ratio(side: dict[str, Any], _: int) -> str:
        low, high = side["kinetic_ratio"]
        return f"{low:.4g} to {high:.4g}"

    texts = [
        f"{row['draws']} of {row['asked']}",
        cells(lambda side, _: f"{side['energy_violation']:.2g}"),
        cells(ratio) if geodesic else "",
        cells(lambda side, _: f"{side['evaluations']:.0f}"),
        cells(lambda side, count: f"{side['seconds'] / count:.1f}"),
        cells(score),
        row.get("note", "finished"),
    ]
    return " | ".join(texts)


def banana_table() -> str:
    runs = read("banana")
    cells = compare("tab:banana-classification", runs, banana.METRIC_NAMES)
    write_csv(cells, RESULTS / "banana.csv")
    lines = ["| method | metric | paper ± s.d. | ours | averaged predictive |", "| --- " * 5 + "|"]
    lines += [
        f"| {c.method} | {c.metric} | {c.paper:.3f} ± {c.paper_error:.3f} | {c.ours:.3f} | "
        f"{c.ensemble:.3f} |"
        for c in cells
    ]
    for row in filter(is_ours, (row for run in runs for row in run["rows"])):
        for metric in dict.fromkeys(c.metric for c in cells):
            if "test" not in row:
                lines.append(f"| {label(row)} | {metric} | | {row.get('note', '-')} | |")
                continue
            ours, joint = (
                row["test"][reading][banana.METRIC_NAMES.get(metric, metric)]
                for reading in ("per_sample", "ensemble")
            )
            lines.append(f"| {label(row)} | {metric} | | {ours:.3f} | {joint:.3f} |")
    return "\n".join(lines)


def snelson_table() -> str:
    lines = [
        "| start, curvature | method | NLL, data | NLL, gap | ensemble NLL, gap | "
        "spread in the gap | in the data | ratio |",
        "| --- " * 8 + "|",
    ]
    for run in read("snelson"):
        trained = run.get("settings", {}).get("trained", True)
        start = f"{'trained' if trained else 'random'}, {run['curvature_kind']}"
        for row in run["rows"]:
            if "gap" not in row:
                note = f"{row.get('note', '-')} | | | | |"
                lines.append(f"| {start} | {label(row)} | {note} |")
                continue
            gap, data = row["spread_gap"], row["spread_data"]
            numbers = [
                f"{row['train']['per_sample']['nll']:.3g}",
                f"{row['gap']['per_sample']['nll']:.3g}",
                f"{row['gap']['ensemble']['nll']:.3g}",
                f"{gap:.3g}",
                f"{data:.3g}",
                f"{gap / data:.1f}" if data > 0 else "-",
            ]
            lines.append(f"| {start} | {label(row)} | {' | '.join(numbers)} |")
    return "\n".join(lines)


IN_DISTRIBUTION = ("acc", "nll", "br", "ece", "mce")  # how the metrics of those tables begin


@cache
def image_cells() -> list[Cell]:
    """Every cell of all tables of images; they go into the CSV as well."""
    cells = compare_images(read("mnist"))
    write_csv(cells, RESULTS / "mnist.csv")
    return cells


def images_table(tables: tuple[str, ...], metrics: tuple[str, ...]) -> str:
    chosen = [c for c in image_cells() if c.table in tables and c.verdict != "not run"]
    sets = dict.fromkeys(cell.dataset for cell in chosen)
    parts = []
    for dataset in sets:
        own = [cell for cell in chosen if cell.dataset == dataset]
        shown = [m for m in dict.fromkeys(c.metric for c in own) if m.startswith(metrics)]
        parts.append(markdown(own, shown))
    return "\n\n".join(parts)


def images_seeds() -> str:
    """The tables of the paper's other two seeds."""
    parts = []
    for seed in (1, 2):
        table = images_table((f"tab:id-seed{seed}",), (*IN_DISTRIBUTION, "auroc"))
        parts.append(f"Seed {seed}:\n\n{table}")
    return "\n\n".join(parts)


def images_verdicts() -> str:
    return verdicts(image_cells())


SHOWN_TIMES = (None, 1.0, 5.0, 20.0, 25.0, 50.0, 100.0)  # of the many at which draws are looked at


def images_ours() -> str:
    """Rows of ours: one draw, all averaged, and what they cost.

    The paper's settings of other seeds than 0 stand in a table of their own.
    """
    lines = []
    shown = [run for run in read("mnist") if run["seed"] == 0 or not at_the_papers_settings(run)]
    for dataset in ("mnist", "fashion_mnist"):
        runs = [run for run in shown if run["dataset"] == dataset]
        foreign = list(runs[0]["rows"][0]["ood"])
        lines += ["", *heading([dataset, "draws"], foreign)]
        seen = set()
        for run in runs:
            for row in run["rows"]:
                name = row_name(run, row)
                if row["t1"] in SHOWN_TIMES and name not in seen:  # MAP is in every part
                    seen.add(name)
                    draws = row.get("draws", 1)
                    lines.append(f"| {name} | {draws} | {row_numbers(run, row, foreign)} |")
    return "\n".join(lines).strip()


def at_the_papers_settings(run: dict[str, Any]) -> bool:
    """Motion on a few images; it alone has a choice of curvatures."""
    return "curvature" in run["settings"]


def row_name(run: dict[str, Any], row: dict[str, Any]) -> str:
    settings = run["settings"]
    curvature = "" if row["method"] == "MAP" else settings.get("curvature", "")
    marks = [
        "wide" if settings.get("wide") else "",
        "GELU" if settings.get("activation") == "gelu" else "",
        {"kronecker": "KFAC", "diagonal": "diagonal"}.get(curvature, ""),
        f"seed {run['seed']}" if run["seed"] else "",
        "" if row["t1"] is None else f"t₁ = {row['t1']:g}",
    ]
    return ", ".join([row["method"], *filter(None, marks)])


def heading(first: list[str], foreign: list[str]) -> list[str]:
    """Of a table whose lines end in `row_numbers`."""
    numbers = ["accuracy", "NLL", "averaged: accuracy", "NLL", "ECE"]
    # Spaces let the names of the sets wrap: with underscores the widest table does not fit.
    shown = (f"AUROC {name}".replace("_", " ") for name in foreign)
    return table_head([*first, *numbers, *shown, "seconds"])


def table_head(names: list[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]


def row_numbers(run: dict[str, Any], row: dict[str, Any], foreign: list[str]) -> str:
    alone, together = row["test"]["per_sample"], row["test"]["ensemble"]
    moved = row["t1"] is not None  # its fit is part of what it costs
    seconds = (row["seconds"] or 0) + (run.get("fit_seconds", 0) if moved else 0)
    numbers = [
        f"{alone['accuracy']:.4f}",
        f"{alone['nll']:.4g}",
        f"{together['accuracy']:.4f}",
        f"{together['nll']:.4g}",
        f"{together['ece']:.4f}",
        *(f"{row['ood'][n]['ensemble'][AUROC]:.3f}" for n in foreign),
        "" if row["seconds"] is None or run["accelerator"] == "CPU" else f"{seconds:.0f}",
    ]
    return " | ".join(numbers)


def images_foreign() -> str:
    """AUROC of single draws: the paper's, ours from test images, ours from training images."""
    runs = json.loads((RESULTS / "mnist_foreign.json").read_text())
    foreign = list(runs[0]["rows"][0]["test"]["auroc"])
    shown = [name.replace("_", " ") for name in foreign]
    lines = table_head(["seed", "method", "t₁", "accuracy", "NLL", *shown])
    for run in sorted(runs, key=lambda run: (run["seed"], run["solver"] != "rattle")):
        ours = run["solver"] == "rattle"
        for row in run["rows"]:
            if not ours and row["method"] == "MAP":
                continue  # it does not move
            method = row["method"] if ours else f"{row['method']} ({run['solver']})"
            time = "" if row["t1"] is None else f"{row['t1']:g}"
            cells = [
                f"{paper_auroc(run['seed'], row, name):.3f} → "
                f"{row['test']['auroc'][name]:.3f}, {row['training']['auroc'][name]:.3f}"
                for name in foreign
            ]
            start = f"{row['test']['accuracy']:.3f} | {row['test']['nll']:.3f}"
            lines.append(f"| {run['seed']} | {method} | {time} | {start} | {' | '.join(cells)} |")
    return "\n".join(lines)


def paper_auroc(seed: int, row: dict[str, Any], foreign: str) -> float:
    table = f"tab:id-seed{seed}"
    wanted = (table, "mnist", row["method"], row["t1"], f"auroc {foreign}")
    for cell in image_cells():
        if (cell.table, cell.dataset, cell.method, cell.t1, cell.metric) == wanted:
            return cell.paper
    raise ValueError(
        f"results/paper/mnist_foreign.json: the paper has no {wanted}; gather complete runs only"
    )


def moved_on(run: dict[str, Any]) -> int:
    """How many images the motion was on at its end."""
    return (run["settings"]["images"] or [60_000])[-1] or 60_000


def images_study() -> str:
    """Few draws of MNIST with other numbers of effective points, friction and gravity."""
    runs = json.loads((RESULTS / "mnist_study.json").read_text())
    foreign = list(runs[0]["rows"][0]["ood"])
    lines = heading(["images", *SIGNS.values(), "t₁"], foreign)
    by_settings = sorted(
        runs, key=lambda run: (-moved_on(run), [run["settings"][name] for name in SIGNS])
    )
    for run in by_settings:
        settings = " | ".join(f"{run['settings'][name]:g}" for name in SIGNS)
        for row in run["rows"]:
            if row["t1"] in SHOWN_TIMES and row["t1"] is not None:
                numbers = row_numbers(run, row, foreign)
                lines.append(f"| {moved_on(run)} | {settings} | {row['t1']:g} | {numbers} |")
    return "\n".join(lines)


MORE_IS_BETTER = ("accuracy", "auroc")


def images_differences() -> str:
    """The full runs less MAP and less ensembles, with intervals; + and - where 0 is outside."""
    lines: list[str] = []
    for run in json.loads((RESULTS / "mnist_differences.json").read_text()):
        entries = [
            entry
            for entry in run["differences"]
            if entry["method"].startswith(("DiMS full", "DiMS growing"))
            and (entry["against"] != "MAP" or "(" not in entry["method"])
        ]
        if not entries:
            continue
        names = [name for name, value in entries[0].items() if isinstance(value, dict)]
        shown = [
            name.replace("per_sample_", "one draw: ").replace("ensemble_", "") for name in names
        ]
        lines += ["", *table_head([title_of(run), *shown])]
        for entry in entries:
            title = f"{entry['method']}, t₁ = {entry['t1']:g}, less {entry['against']}"
            cells = [difference(name, entry[name]) for name in names]
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines).strip().replace("_", " ")


def title_of(run: dict[str, Any]) -> str:
    return f"{run['dataset']}, {'wide, ' if run['wide'] else ''}seed {run['seed']}"


def difference(name: str, entry: dict[str, float]) -> str:
    low, high = entry["low"], entry["high"]
    if low <= 0 <= high:
        verdict = "="
    else:
        verdict = "+" if (low > 0) == any(word in name for word in MORE_IS_BETTER) else "-"
    return f"{entry['difference']:+.4f} ({low:+.4f}, {high:+.4f}) {verdict}"


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "uci-test": ("uci", lambda: uci_table("tab:uci_test")),
    "uci-train": ("uci", lambda: uci_table("tab:uci_train")),
    "waveform-file": ("uci", waveform_file),
    "uci-readings": ("uci", uci_readings),
    "uci-averaged": ("uci", uci_averaged),
    "banana": ("banana", banana_table),
    "snelson": ("snelson", snelson_table),
    "images-id": (
        "mnist",
        lambda: images_table(("tab:id-main",), IN_DISTRIBUTION),
    ),
    "images-ood": ("mnist", lambda: images_table(("tab:ood-main",), ("auroc",))),
    "images-curvature": (
        "mnist",
        lambda: images_table(("tab:hessian-influence",), IN_DISTRIBUTION),
    ),
    "images-verdicts": ("mnist", images_verdicts),
    "images-seeds": ("mnist", images_seeds),
    "images-ours": ("mnist", images_ours),
    "images-foreign": ("mnist_foreign", images_foreign),
    "images-study": ("mnist_study", images_study),
    "images-differences": ("mnist_differences", images_differences),
    "networks": ("uci_more", networks),
    "solver": ("uci_more", solver_table),
}


def write_tables() -> None:
    image_cells.cache_clear()  # of other results, or of these before they changed
    text = PAGE.read_text()
    for mark, (source, make) in TABLES.items():
        body = make() if (RESULTS / f"{source}.json").exists() else "Not run yet."
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
        filled = body + "\n"
        text, found = re.subn(pattern, lambda m, b=filled: m[1] + b + m[2], text, flags=re.DOTALL)
        if found != 1:
            raise ValueError(f"{PAGE}: the mark <!-- {mark} --> is there {found} times, not once")
    PAGE.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "what",
        choices=("uci", "banana", "snelson", "mnist", "mnist_study", "mnist_foreign", "tables"),
    )
    parser.add_argument("folder", type=Path, nargs="?")
    options = parser.parse_args()
    if options.what == "tables":
        write_tables()
    elif options.folder is None:
        parser.error("the folder of the runs is missing")
    else:
        gather(options.what, options.folder)


if __name__ == "__main__":
    main()
