"""Tables: rows of text under column names, as markdown, in a terminal, or as CSV.

The metrics of a table are those that its rows contain, labelled as in `dims.metrics.register`; a
metric that is not registered appears under its own name.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dims
from dims_paper.schema import AUROC, ENSEMBLE, PER_DRAW, Row, Run

# The same as another metric in other units or under another convention.
VARIANTS = ("brier_mean", "nll_clipped", "accuracy_percent", "ece_percent", "mce_percent")
NUMBER_LABELS = {"spread_gap": "spread: gap", "spread_data": "spread: data"}


@dataclass(frozen=True)
class Table:
    """Lines of cells under the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def show(self, console: Any) -> None:
        """In a terminal, by rich."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        shown = RichTable(title=self.title, box=SIMPLE_HEAD, pad_edge=False)
        for column in self.columns:
            shown.add_column(column)
        for row in self.rows:
            shown.add_row(*row)
        console.print(shown)

    def write_csv(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([self.columns, *self.rows])


def metric_label(name: str) -> str:
    """How tables write a metric; `auroc SET` is that against an OOD set."""
    first, _, rest = name.partition(" ")
    label = {"brier": "Brier", **dims.metrics.labels()}.get(first, first)
    return f"{label} {rest.replace('_', ' ')}" if rest else label


def is_better_high(name: str) -> bool:
    """Whether more of a metric is better."""
    first = name.removesuffix("_percent").partition(" ")[0]
    return first.startswith("auroc") or dims.metrics.directions().get(first) is True


def metrics_of(rows: Iterable[Row], part: str | None = None) -> list[str]:
    """The metrics that rows contain in the order of the registry, without variants of others."""
    found = {
        metric
        for row in rows
        for name, scores in row.scores.items()
        if part in (None, name)
        for metric in {**scores.get(PER_DRAW, {}), **scores.get(ENSEMBLE, {})}
        if metric not in VARIANTS
    }
    known = [metric for metric in dims.metrics.labels() if metric in found]
    return known + sorted(found.difference(known))


def score_table(runs: Sequence[Run], part: str, title: str) -> Table:
    """Every row of runs on a part of the data: each metric of a draw and of the ensemble."""
    rows = [(run, row) for run in runs for row in run.rows]
    metrics = metrics_of((row for _, row in rows), part)
    ood = list(dict.fromkeys(name for _, row in rows for name in row.ood))
    numbers = [n for n in NUMBER_LABELS if any(n in row.numbers for _, row in rows)]
    columns = ["run"] if len(runs) > 1 else []
    columns += ["method", "t₁", *map(metric_label, metrics)]
    columns += [f"AUROC {name}".replace("_", " ") for name in ood]
    columns += [*(NUMBER_LABELS[n] for n in numbers), "seconds", ""]
    lines = []
    for run, row in rows:
        cells = [f"{run.dataset}, seed {run.seed}"] if len(runs) > 1 else []
        cells += [row.name, "" if row.t1 is None else f"{row.t1:g}"]
        scores = row.scores.get(part, {})
        cells += [
            " / ".join(f"{r[m]:.4g}" for k in (PER_DRAW, ENSEMBLE) if m in (r := scores.get(k, {})))
            or "-"
            for m in metrics
        ]
        cells += [f"{row.ood[n][ENSEMBLE][AUROC]:.3f}" if n in row.ood else "-" for n in ood]
        cells += [f"{row.numbers[n]:.3g}" if n in row.numbers else "-" for n in numbers]
        cells += ["-" if row.seconds is None else f"{row.seconds:.0f}", row.note or ""]
        lines.append(cells)
    return Table(columns, lines, f"{title} ({part}: of a draw / of the ensemble)")


def with_error(values: Sequence[float]) -> str:
    """The mean, and its standard error where there are several values."""
    mean = f"{statistics.fmean(values):.3f}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {statistics.stdev(values) / math.sqrt(len(values)):.3f}"
