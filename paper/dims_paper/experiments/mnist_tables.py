"""The paper's tables of MNIST and Fashion-MNIST beside our runs, and our runs beside each other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from dims_paper.experiments.comparison import Cell, beside, is_of
from dims_paper.experiments.image_scores import PerImage, compare_pairs, load_per_image
from dims_paper.numbers import PaperNumber, select

__all__ = ["AUROC", "compare_images", "compare_rows"]

# The paper does not say which EMNIST: both that we have stand beside its number.
OURS = {
    "emnist": ("emnist_mnist", "emnist_letters"),
    "fashion_mnist": ("fashion_mnist",),
    "kmnist": ("kmnist",),
    "mnist": ("mnist",),
}
TABLES = (
    "tab:id-main",
    "tab:ood-main",
    "tab:hessian-influence",
    "tab:id-seed0",
    "tab:id-seed1",
    "tab:id-seed2",
)
METRICS = {"brier": "brier_mean"}  # these tables take the mean over classes
CURVATURES = {"D": "diagonal", "K": "kronecker", "LR": "low_rank"}
ACTIVATION = "tanh"  # of the networks in these tables
AUROC = "auroc_max_probability"


def compare_images(runs: list[dict[str, Any]]) -> list[Cell]:
    """Every number of the paper on images; the tables of one seed are ours of the same number."""
    numbers = [number for table in TABLES for number in select(table=table)]
    return [cell for number in numbers for cell in _cells(number, runs)]


def compare_rows(
    runs: list[dict[str, Any]], folder: Path, device: str = "cpu"
) -> list[dict[str, Any]]:
    """Every row less MAP, and draws less ensembles of the same size, of one set and seed.

    Of draws looked at several times only the last are compared. The differences have intervals
    over resampled test images. `folder` holds the numbers per image.
    """
    rows = _last_rows(runs)
    alone = next(row for row in rows if row["method"] == "MAP")
    pairs = [(row, alone) for row in rows if row["method"] != "MAP"]
    for row in rows:
        if row["method"].startswith(("DiMS full", "DiMS growing")):
            size = f"Ensemble ({row['draws']})"
            pairs += [(row, peer) for peer in rows if peer["method"] == size]

    @cache
    def scores(name: str) -> PerImage:
        return load_per_image(folder / f"{name}.safetensors", device=device)

    return [
        {
            "method": row["method"],
            "t1": row["t1"],
            "against": other["method"],
            **compare_pairs(scores(row["per_image"]), scores(other["per_image"])),
        }
        for row, other in pairs
    ]


def _last_rows(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row of each method: MAP is in every part, and draws are looked at several times."""
    rows: dict[str, dict[str, Any]] = {}
    for row in (row for run in runs for row in run["rows"]):
        known = rows.setdefault(row["method"], row)
        if (row["t1"] or 0) > (known["t1"] or 0):
            rows[row["method"]] = row
    return list(rows.values())


def _cells(number: PaperNumber, runs: list[dict[str, Any]]) -> Iterable[Cell]:
    method, _, letter = number.method.partition("-")
    curvature = CURVATURES.get(letter, "low_rank")
    seed = int(number.table[-1]) if number.table.startswith("tab:id-seed") else 0
    rows = [
        row
        for run in runs
        if (run["dataset"], run["seed"]) == (number.dataset, seed)
        and run["part"].endswith(curvature)
        and run["settings"].get("activation", ACTIVATION) == ACTIVATION
        for row in run["rows"]
        if is_of(row, number, method)
    ]
    if number.split == "ood":
        assert number.evaluated_on is not None
        for name in OURS[number.evaluated_on]:
            yield _cell(number, [row["ood"][name] for row in rows], AUROC, f"auroc {name}")
    else:
        metric = METRICS.get(number.metric, number.metric)
        yield _cell(number, [row["test"] for row in rows], metric, number.metric)


def _cell(number: PaperNumber, found: list[dict[str, Any]], metric: str, shown: str) -> Cell:
    """The paper's errors are over draws, and so are ours."""
    if not found:
        return beside(number, math.nan, math.nan, math.nan, 0, shown)
    readings = ("per_sample", "per_sample_error", "ensemble")
    ours, error, ensemble = (found[0][reading][metric] for reading in readings)
    return beside(number, ours, error, ensemble, len(found), shown)
