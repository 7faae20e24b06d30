"""Our means and standard errors over the splits beside the published ones."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dims_paper.datasets.uci_regression import REGRESSION_NAMES, Published, load_published
from tables import markdown

METHODS = ("MC dropout", "Deep ensemble of 5", "NGBoost", "PBP")


def read_results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The finished splits of each set."""
    return {
        name: [
            json.loads(file.read_text("utf-8")) for file in sorted((folder / name).glob("*.json"))
        ]
        for name in REGRESSION_NAMES
    }


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and its standard error over the splits; NaN of one split."""
    if len(values) < 2:
        return values[0], math.nan
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def difference(ours: tuple[float, float], theirs: tuple[float, float | None]) -> float:
    """(ours − theirs)/√(SE² + SE²); negative: ours is lower, which is better."""
    error = math.hypot(ours[1], 0.0 if theirs[1] is None else theirs[1])
    return (ours[0] - theirs[0]) / error


def table(
    results: Mapping[str, Sequence[Mapping[str, Any]]], score: str, answer: str = "default"
) -> str:
    """A row for each set that has results: ours, and each published number with the difference."""
    published = {(entry.dataset, entry.method): entry for entry in load_published()}
    head = ["set", "splits", f"ours ({answer})", *METHODS]
    rows = []
    for name, splits in results.items():
        splits = [split for split in splits if answer in split["scores"]]
        if not splits:
            continue
        ours = mean_and_error([split["scores"][answer][score] for split in splits])
        cells = [_cell(ours, published.get((name, method)), score) for method in METHODS]
        error = f" ± {ours[1]:.3f}" if math.isfinite(ours[1]) else ""
        rows.append([name, str(len(splits)), f"{ours[0]:.3f}{error}", *cells])
    return markdown(head, rows)


def summary(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The answers beside each other: NLL, coverage, AUROC far away, weight on the network, cost."""
    answers = ("network", "default", "held out", "ensemble")
    head = ["set", "splits", *(f"NLL {name}" for name in answers), "coverage, default / held out"]
    head += [
        "AUROC permuted, moved: default",
        "ensemble",
        "weight on network",
        "seconds ÷ ensemble",
    ]
    rows = []
    for name, splits in results.items():
        if not splits:
            continue
        nll = [_mean(splits, "scores", answer, "nll") for answer in answers]
        covered = [_mean(splits, "scores", a, "coverage") for a in ("default", "held out")]
        far = [
            ", ".join(_mean(splits, "scores", a, f"auroc {w}") for w in ("permuted", "moved"))
            for a in ("default", "ensemble")
        ]
        weight = _mean(splits, "weights", "network")
        ratios = cost(splits, "default")
        shown = f"{statistics.fmean(ratios):.1f}" if ratios else ""
        rows.append([name, str(len(splits)), *nll, " / ".join(covered), *far, weight, shown])
    return markdown(head, rows)


def cost(splits: Sequence[Mapping[str, Any]], answer: str) -> list[float]:
    """Seconds of an answer over those of the ensemble, of splits on a CPU without a pause."""
    found = (split["seconds"] for split in splits if split["configuration"]["device"] == "cpu")
    return [s[answer] / s["ensemble"] for s in found if answer in s and "ensemble" in s]


def _mean(splits: Sequence[Mapping[str, Any]], *keys: str) -> str:
    """Of those splits that have it."""
    found = []
    for split in splits:
        value: Any = split
        for key in keys:
            value = None if value is None else value.get(key)
        if value is not None:
            found.append(value)
    return f"{statistics.fmean(found):.3f}" if found else ""


def _cell(ours: tuple[float, float], entry: Published | None, score: str) -> str:
    if entry is None:
        return ""
    value, error = (
        (entry.nll, entry.nll_error) if score == "nll" else (entry.rmse, entry.rmse_error)
    )
    if value is None:
        return ""
    gap = difference(ours, (value, error))
    return f"{value:.2f} ({gap:+.1f})" if math.isfinite(gap) else f"{value:.2f}"
