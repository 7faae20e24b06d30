"""Paired differences of NLL over splits, and ranks beside the ensemble."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tables import markdown
from uci_classification.counts import counts

__all__ = ["table"]

# Ours, and the opponent and the network that see the same held-out rows.
ANSWERS = {
    "default": ("ensemble", "network"),
    "held out": ("ensemble, held out", "network, held out"),
}
ENDINGS = {"ordinary": "ordinary", "paper": "as in the paper", "class": "a class left out"}
Splits = Sequence[dict[str, Any]]


def table(folder: Path, chosen_on: Sequence[str]) -> str:
    """Without and with held-out rows: a row for each set and way of training that has results."""
    results = {}
    for place in sorted(folder.glob("*_*")):
        splits = [json.loads(file.read_text("utf-8")) for file in sorted(place.glob("*.json"))]
        if len(splits) >= 2:
            results[tuple(place.name.rsplit("_", 1))] = splits
    if not results:
        return "no results yet"
    parts = [_table(results, chosen_on, ours, *theirs) for ours, theirs in ANSWERS.items()]
    return "\n\n".join(parts)


def _table(
    results: dict[Any, Splits], chosen_on: Sequence[str], ours: str, theirs: str, network: str
) -> str:
    head = ["set", "rules", "splits", "network", "ensemble", ours, "− network"]
    head += ["AUROC: network", "ensemble", ours]
    head += [] if ours == "default" else ["weight on network"]
    head += ["seconds ÷ ensemble"]
    names = (network, theirs, ours)
    rows, ranks = [], []
    for (name, protocol), splits in results.items():
        half = "chosen" if name in chosen_on else "confirmed"
        row = [f"{name}, {ENDINGS[protocol]}", half, str(len(splits))]
        row += [*(_nll(splits, n) for n in names), _difference(splits, ours, network)]
        row += [_far(splits, n) for n in names]
        weights = [split["weights"]["network"] for split in splits] if ours != "default" else []
        cost = [split["seconds"][ours] / split["seconds"][theirs] for split in splits]
        row += [f"{statistics.fmean(column):.2f}" for column in (weights, cost) if column]
        rows.append(row)
        if protocol != "class":
            ranks.append(_ranks(splits, names))
    mean = ", ".join(f"{n} {statistics.fmean(r[n] for r in ranks):.2f}" for n in names)
    lines = f"Mean rank by NLL, all classes: {mean}\n{counts(results, ours, theirs, network)}"
    return f"{markdown(head, rows)}\n\n{lines}"


def _values(splits: Splits, answer: str, score: str = "nll") -> list[float]:
    """Of those splits that have it: a class may have no test rows."""
    found = (split["scores"][answer] for split in splits)
    return [scores[score] for scores in found if score in scores]


def _nll(splits: Splits, answer: str) -> str:
    return f"{statistics.fmean(_values(splits, answer)):.3f}"


def _difference(splits: Splits, answer: str, network: str) -> str:
    """Mean and paired standard error of an answer minus the network."""
    pairs = zip(_values(splits, answer), _values(splits, network), strict=True)
    gaps = [ours - theirs for ours, theirs in pairs]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    return f"{statistics.fmean(gaps):+.3f} ± {error:.3f}"


def _far(splits: Splits, answer: str) -> str:
    """Permuted, moved, and of the class that was left out."""
    found = [_values(splits, answer, f"auroc {where}") for where in ("permuted", "moved", "class")]
    return ", ".join(f"{statistics.fmean(values):.2f}" for values in found if values)


def _ranks(splits: Splits, names: Sequence[str]) -> dict[str, float]:
    """By mean NLL: 1 is best."""
    ordered = sorted(names, key=lambda name: statistics.fmean(_values(splits, name)))
    return {name: float(ordered.index(name) + 1) for name in names}
