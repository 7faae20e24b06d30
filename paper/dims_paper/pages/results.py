"""Results of finished runs as small files, and reading them again.

`gather` keeps what tables need of each run: lists over draws become their mean, worst or counts,
and numbers five digits.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dims_paper.cache import load_objects, load_runs, read_json, write_json
from dims_paper.comparison import Cell, cells_table, compare_images
from dims_paper.schema import Difference, Row, Run, joined

SUMMARIES: dict[str, Callable[[list[Any]], Any]] = {
    "evaluations": statistics.fmean,
    "energy_violation": max,
    "energy_jump": list,
    "status": lambda values: dict(Counter(values)),
    "verdict": lambda values: dict(Counter(values)),
    "kinetic_ratio": lambda values: [min(values), max(values)],
    "reached": min,
}
TABLED = ("confidence",)  # what pages on results draw and tables may show


class Results:
    """The folder of gathered results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def runs(self, name: str) -> list[Run]:
        """The runs of an experiment with all their rows; FileNotFoundError where there are none."""
        files = [self.folder / f"{name}.json", self.folder / f"{name}_additional.json"]
        found = [file for file in files if file.exists()]
        if not found:
            raise FileNotFoundError(files[0])
        return joined([Run.from_json(run) for file in found for run in read_json(file)])

    def some_runs(self, *names: str) -> list[Run]:
        """The runs of those experiments that are there."""
        there = [name for name in names if (self.folder / f"{name}.json").exists()]
        return [run for name in there for run in self.runs(name)]

    def differences(self) -> list[tuple[str, list[Difference]]]:
        """Rows of several parts less others, by set and seed."""
        return [
            (
                f"{run['dataset']}, {'wide, ' if run['wide'] else ''}seed {run['seed']}",
                [Difference.from_json(entry) for entry in run["differences"]],
            )
            for run in read_json(self.folder / "mnist_differences.json")
        ]

    @cached_property
    def image_cells(self) -> list[Cell]:
        """Every cell of all tables of images; they go into a CSV file as well."""
        return self.write_cells("mnist", compare_images(self.runs("mnist")))

    def write_cells(self, name: str, cells: list[Cell]) -> list[Cell]:
        cells_table(cells).write_csv(self.folder / f"{name}.csv")
        return cells


def gather(name: str, folder: Path, results: Path) -> None:
    """Keep what tables need of all runs below a folder, one JSON file for each kind of result."""
    runs = [run for run in load_runs(folder) if run.rows]
    small = [replace(run, figure={}, rows=[_shortened(row) for row in run.rows]) for run in runs]
    kinds = {
        name: [run.to_json() for run in small if run.additional is None],
        f"{name}_additional": [run.to_json() for run in small if run.additional is not None],
        f"{name}_differences": [run for run in load_objects(folder) if "differences" in run],
    }
    for kind, parts in kinds.items():
        if parts:  # a folder may hold one kind alone; the others stay as they are
            write_json(results / f"{kind}.json", _rounded(parts), indent=None)


def _shortened(row: Row) -> Row:
    """Lists over draws become their mean or worst; what only figures need is left out."""
    diagnostics = {
        key: SUMMARIES[key](value) if isinstance(value, list) else value
        for key, value in row.diagnostics.items()
        if value not in (None, []) and (key in SUMMARIES or not isinstance(value, list))
    }
    figure = {key: row.figure[key] for key in TABLED if key in row.figure}
    rattle = None if row.rattle is None else _shortened(row.rattle)
    return replace(row, diagnostics=diagnostics, figure=figure, rattle=rattle)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value
