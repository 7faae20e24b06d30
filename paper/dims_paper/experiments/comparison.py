"""Our numbers beside the paper's: a verdict for every cell of a table."""

from __future__ import annotations

import csv
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dims_paper.numbers import PaperNumber, select

__all__ = ["Cell", "beside", "compare", "is_of", "markdown", "write_csv"]

HIGHER_IS_BETTER = ("accuracy", "auroc")
COMBINED_ERRORS = 2.0  # how many of them still count as the same


@dataclass(frozen=True)
class Cell:
    """One number of the paper and what we measured for it."""

    table: str
    dataset: str
    split: str
    method: str
    t1: float | None
    eta0: float | None
    metric: str
    paper: float
    paper_error: float | None
    ours: float  # NaN where there is no run
    error: float
    ensemble: float  # the same metric of the averaged predictive
    seeds: int
    verdict: str  # "better", "same", "worse" or "not run"


def compare(
    table: str, runs: list[dict[str, Any]], metric_names: dict[str, str] | None = None
) -> list[Cell]:
    """Every cell of a table of the paper; runs hold `dataset` and `rows` of scored methods.

    `metric_names` maps the paper's names to ours where they differ.
    """
    names = metric_names or {}
    return [_cell(number, runs, names) for number in select(table=table)]


def _cell(number: PaperNumber, runs: list[dict[str, Any]], names: dict[str, str]) -> Cell:
    metric = names.get(number.metric, number.metric)
    found = [
        row[number.split]
        for run in runs
        if run["dataset"] == number.dataset
        for row in run["rows"]
        if is_of(row, number, number.method)
    ]
    values = [scores["per_sample"][metric] for scores in found]
    ours = statistics.fmean(values) if values else math.nan
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    joint = [scores["ensemble"][metric] for scores in found]
    return beside(number, ours, error, statistics.fmean(joint) if joint else math.nan, len(values))


def is_of(row: dict[str, Any], number: PaperNumber, method: str) -> bool:
    """Whether a row is that of a number of the paper; what the paper does not state may be any."""
    return (
        row["method"] == method
        and (number.eta0 is None or row["eta0"] == number.eta0)
        and (number.t1 is None or row["t1"] == number.t1)
    )


def beside(
    number: PaperNumber,
    ours: float,
    error: float,
    ensemble: float,
    seeds: int,
    metric: str | None = None,
) -> Cell:
    """The cell of a number and what we have for it; no seeds: it was not run."""
    return Cell(
        table=number.table,
        dataset=number.dataset,
        split=number.split,
        method=number.method,
        t1=number.t1,
        eta0=number.eta0,
        metric=number.metric if metric is None else metric,
        paper=number.mean,
        paper_error=number.error,
        ours=ours,
        error=error,
        ensemble=ensemble,
        seeds=seeds,
        verdict=_verdict(number, ours, error) if seeds else "not run",
    )


def _verdict(number: PaperNumber, ours: float, error: float) -> str:
    combined = math.hypot(number.error or 0.0, 0.0 if math.isnan(error) else error)
    higher = number.metric.removesuffix("_percent") in HIGHER_IS_BETTER
    gain = ours - number.mean if higher else number.mean - ours
    # The paper prints three decimals: half a unit of the last is no difference.
    if abs(gain) <= COMBINED_ERRORS * combined + 5e-4:
        return "same"
    return "better" if gain > 0 else "worse"


def markdown(
    cells: Sequence[Cell],
    metrics: Sequence[str],
    ours_only: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """A table with a line for each dataset and method: paper → ours, and the verdict's sign.

    Where a method is looked at more than once, its lines say when.
    `ours_only` has further lines of a dataset, of methods that the paper has not.
    """
    signs = {"better": "+", "same": "=", "worse": "-", "not run": "?"}
    lines = [
        "| set | method | " + " | ".join(metrics) + " |",
        "| --- | --- |" + " --- |" * len(metrics),
    ]
    seen: dict[tuple[str, str, float | None, float | None], dict[str, Cell]] = {}
    for cell in cells:
        seen.setdefault((cell.dataset, cell.method, cell.eta0, cell.t1), {})[cell.metric] = cell
    rest = ours_only or {}
    last = {key[0]: key for key in seen}
    looks = Counter(key[:3] for key in seen)
    for key, row in seen.items():
        dataset, method, eta0, t1 = key
        name = method if eta0 is None else f"{method} ({eta0:g})"
        if looks[key[:3]] > 1:
            name += f", t₁ = {t1:g}"
        texts = [
            f"{row[m].paper:.3f} → {row[m].ours:.3f}{_error(row[m])} {signs[row[m].verdict]}"
            for m in metrics
        ]
        lines.append(f"| {dataset} | {name} | " + " | ".join(texts) + " |")
        if last[dataset] == key:
            lines += rest.get(dataset, ())
    return "\n".join(lines)


def _error(cell: Cell) -> str:
    return (
        "" if math.isnan(cell.error) else f" ± {cell.error:.3f}"
    )  # of a single network there is none


def write_csv(cells: Sequence[Cell], path: Path) -> None:
    """All cells, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cell)])
        writer.writeheader()
        for cell in cells:
            writer.writerow(
                {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in asdict(cell).items()}
            )
