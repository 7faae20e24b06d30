"""Paired differences of NLL over splits, and ranks beside the ensemble."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tables import markdown

__all__ = ["table"]

ANSWERS = ("default", "held out")


def table(folder: Path, chosen_on: Sequence[str]) -> str:
    """A row for each set and way of training that has results."""
    head = ["set", "rules", "splits", "network", "ensemble"]
    for answer in ANSWERS:
        head += [answer, "− network", "AUROC permuted, moved"]
    head += ["network's AUROC", "ensemble's", "weight on network", "seconds ÷ ensemble"]
    rows, ranks = [], []
    for place in sorted(folder.glob("*_*")):
        splits = [json.loads(file.read_text("utf-8")) for file in sorted(place.glob("*.json"))]
        if len(splits) < 2:
            continue
        name = place.name.replace("_ordinary", ", ordinary").replace("_paper", ", as in the paper")
        half = "chosen" if place.name.rsplit("_", 1)[0] in chosen_on else "confirmed"
        row = [name, half, str(len(splits)), _nll(splits, "network"), _nll(splits, "ensemble")]
        for answer in ANSWERS:
            row += [_nll(splits, answer), _difference(splits, answer), _far(splits, answer)]
        cost = [split["seconds"]["default"] / split["seconds"]["ensemble"] for split in splits]
        weight = statistics.fmean(split["weights"]["network"] for split in splits)
        row += [_far(splits, "network"), _far(splits, "ensemble")]
        rows.append([*row, f"{weight:.2f}", f"{statistics.fmean(cost):.1f}"])
        ranks.append(_ranks(splits))
    if not rows:
        return "no results yet"
    names = ("network", "ensemble", *ANSWERS)
    mean = ", ".join(f"{n} {statistics.fmean(r[n] for r in ranks):.2f}" for n in names)
    return f"{markdown(head, rows)}\n\nMean rank by NLL: {mean}"


def _values(splits: Sequence[dict[str, Any]], answer: str, score: str = "nll") -> list[float]:
    return [split["scores"][answer][score] for split in splits]


def _nll(splits: Sequence[dict[str, Any]], answer: str) -> str:
    return f"{statistics.fmean(_values(splits, answer)):.3f}"


def _difference(splits: Sequence[dict[str, Any]], answer: str) -> str:
    """Mean and paired standard error of an answer minus the network."""
    pairs = zip(_values(splits, answer), _values(splits, "network"), strict=True)
    gaps = [ours - theirs for ours, theirs in pairs]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    return f"{statistics.fmean(gaps):+.3f} ± {error:.3f}"


def _far(splits: Sequence[dict[str, Any]], answer: str) -> str:
    found = [_values(splits, answer, f"auroc {where}") for where in ("permuted", "moved")]
    return ", ".join(f"{statistics.fmean(values):.2f}" for values in found)


def _ranks(splits: Sequence[dict[str, Any]]) -> dict[str, float]:
    """By mean NLL: 1 is best."""
    names = ("network", "ensemble", *ANSWERS)
    ordered = sorted(names, key=lambda name: statistics.fmean(_values(splits, name)))
    return {name: float(ordered.index(name) + 1) for name in names}
