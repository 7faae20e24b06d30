"""Gather finished runs into `results/` and write the tables of docs/reproduction.md.

    python benchmarks/reproduction_page.py uci runs/uci
    python benchmarks/reproduction_page.py banana runs/banana
    python benchmarks/reproduction_page.py snelson runs/snelson
    python benchmarks/reproduction_page.py tables

The first three keep what tables need of each run, in one small JSON file; the last writes the
cells beside the paper's (CSV) and the text between the marks of the page.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dims.experiments import banana, uci
from dims.experiments.comparison import Cell, compare, markdown, write_csv
from dims.experiments.runs import load_runs

RESULTS, PAGE = Path("results"), Path("docs/reproduction.md")
METRICS = ("accuracy", "nll", "brier", "ece", "mce", "auroc")
BULKY = ("evaluations", "energy_violation", "loss", "status")
# What figures and reports need and tables do not; benchmarks/figures.py keeps it.
DRAWN_ROWS = ("curves", "mean", "std", "map", "calibration")
DRAWN = ("grid", "points", "map", "movies", "movie_grid", "trajectories", "landscape")


def gather(name: str, folder: Path) -> None:
    runs = load_runs(folder)
    for run in runs:
        for key in DRAWN:
            run.pop(key, None)
        for row in run["rows"]:
            _shorten(row)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(_rounded(runs)) + "\n")


def _shorten(row: dict[str, Any]) -> None:
    """Lists over draws become their mean or worst."""
    for key in DRAWN_ROWS:
        row.pop(key, None)
    for key in BULKY:
        value = row.pop(key, None)
        if isinstance(value, float):
            row[key] = value
        elif value and key == "evaluations":
            row["evaluations"] = statistics.fmean(value)
        elif value and key == "energy_violation":
            row["energy_violation"] = max(value)
        elif value and key == "status":
            row["status"] = dict(Counter(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


def read(name: str) -> list[dict[str, Any]]:
    return list(json.loads((RESULTS / f"{name}.json").read_text()))


def uci_table(table: str) -> str:
    cells = compare(table, read("uci"), uci.METRIC_NAMES)
    write_csv(cells, RESULTS / f"{table.removeprefix('tab:')}.csv")
    return markdown(cells, METRICS) + "\n\n" + verdicts(cells)


def verdicts(cells: list[Cell]) -> str:
    lines = ["| method | better | same | worse | not run |", "| --- | --- | --- | --- | --- |"]
    for method in dict.fromkeys(cell.method for cell in cells):
        count = Counter(cell.verdict for cell in cells if cell.method == method)
        numbers = [str(count[v]) for v in ("better", "same", "worse", "not run")]
        lines.append(f"| {method} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def uci_readings() -> str:
    """Test NLL of single draws and of the averaged predictive, mean over seeds."""
    runs = read("uci")
    names = list(dict.fromkeys((row["method"], row["eta0"]) for run in runs for row in run["rows"]))
    sets = list(dict.fromkeys(run["dataset"] for run in runs))
    lines = ["| method | " + " | ".join(sets) + " |", "| --- |" + " --- |" * len(sets)]
    for method, eta0 in names:
        texts = []
        for dataset in sets:
            rows = [
                row["test"]
                for run in runs
                if run["dataset"] == dataset
                for row in run["rows"]
                if (row["method"], row["eta0"]) == (method, eta0)
            ]
            single = statistics.fmean(row["per_sample"]["nll"] for row in rows)
            joint = statistics.fmean(row["ensemble"]["nll"] for row in rows)
            texts.append(f"{single:.3f} / {joint:.3f}")
        label = method if eta0 is None else f"{method} ({eta0:g})"
        lines.append(f"| {label} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def banana_table() -> str:
    cells = compare("tab:banana-classification", read("banana"), banana.METRIC_NAMES)
    write_csv(cells, RESULTS / "banana.csv")
    lines = ["| method | metric | paper ± s.d. | ours | averaged predictive |", "| --- " * 5 + "|"]
    lines += [
        f"| {c.method} | {c.metric} | {c.paper:.3f} ± {c.paper_error:.3f} | {c.ours:.3f} | "
        f"{c.ensemble:.3f} |"
        for c in cells
    ]
    return "\n".join(lines)


def snelson_table() -> str:
    lines = [
        "| curvature | method | NLL, data | NLL, gap | ensemble NLL, gap | spread in the gap | "
        "in the data | ratio |",
        "| --- " * 8 + "|",
    ]
    for run in read("snelson"):
        for row in run["rows"]:
            gap, data = row["spread_gap"], row["spread_data"]
            numbers = [
                f"{row['train']['per_sample']['nll']:.3f}",
                f"{row['gap']['per_sample']['nll']:.3g}",
                f"{row['gap']['ensemble']['nll']:.3g}",
                f"{gap:.3g}",
                f"{data:.3g}",
                f"{gap / data:.1f}" if data > 0 else "-",
            ]
            lines.append(f"| {run['curvature_kind']} | {row['method']} | {' | '.join(numbers)} |")
    return "\n".join(lines)


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "uci-test": ("uci", lambda: uci_table("tab:uci_test")),
    "uci-train": ("uci", lambda: uci_table("tab:uci_train")),
    "uci-readings": ("uci", uci_readings),
    "banana": ("banana", banana_table),
    "snelson": ("snelson", snelson_table),
}


def write_tables() -> None:
    text = PAGE.read_text()
    for mark, (source, make) in TABLES.items():
        body = make() if (RESULTS / f"{source}.json").exists() else "Not run yet."
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
        filled = body + "\n"
        text = re.sub(pattern, lambda m, b=filled: m[1] + b + m[2], text, flags=re.DOTALL)
    PAGE.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("uci", "banana", "snelson", "tables"))
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
