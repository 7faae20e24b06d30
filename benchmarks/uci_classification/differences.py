"""Paired differences of NLL over splits, and ranks beside the ensemble."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tables import markdown
from uci_classification.counts import (
    Splits,
    aurocs,
    cost,
    counts,
    mean,
    mean_ranks,
    paired_difference,
)
from uci_classification.learnt import AGAIN, learnt

__all__ = ["FIVE", "ONE", "read_results", "table"]

# Ours, and the opponent and the network that see the same held-out rows.
ANSWERS = {
    "default": ("ensemble", "network"),
    "held out": ("ensemble, held out", "network, held out"),
}
ENDINGS = {
    "ordinary": "ordinary",
    "five": "five networks",
    "paper": "as in the paper",
    "class": "a class left out",
}
ONE = ("ordinary", "paper", "class")  # network that draws start from
FIVE = ("five", "paper")  # where it is the paper's, there is one


def read_results(folder: Path) -> dict[Any, Splits]:
    """The finished splits by set and way of training, where there are two or more."""
    results = {}
    for place in sorted(folder.glob("*_*")):
        splits = [json.loads(file.read_text("utf-8")) for file in sorted(place.glob("*.json"))]
        if len(splits) >= 2:
            results[tuple(place.name.rsplit("_", 1))] = splits
    return results


def table(folder: Path, chosen_on: Sequence[str], protocols: Sequence[str] = ONE) -> str:
    """Without and with held-out rows: a row for each set and way of training that has results."""
    found = read_results(folder)
    results = {key: splits for key, splits in found.items() if key[1] in protocols}
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
    head += [] if ours == "default" else [AGAIN]
    names = (network, theirs, ours)
    rows = []
    for (name, protocol), splits in results.items():
        half = "chosen" if name in chosen_on else "confirmed"
        row = [f"{name}, {ENDINGS[protocol]}", half, str(len(splits))]
        row += [
            *(f"{mean(splits, n, 'nll'):.3f}" for n in names),
            _difference(splits, ours, network),
        ]
        row += [aurocs(splits, n) for n in names]
        if ours != "default":
            row.append(f"{statistics.fmean(s['weights']['network'] for s in splits):.2f}")
        row.append(f"{cost(splits, ours, theirs):.2f}")
        if ours != "default":
            row.append(f"{mean(splits, AGAIN, 'nll'):.3f}")
        rows.append(row)
    whole = [splits for (_, protocol), splits in results.items() if protocol != "class"]
    if not whole:  # classes have been left out, and nothing else
        return markdown(head, rows)
    lines = [f"Mean rank by NLL, all classes: {mean_ranks(whole, names)}"]
    lines.append(counts(results, ours, theirs, network))
    if ours != "default":
        lines += learnt(results, ours, network)
    return "\n\n".join([markdown(head, rows), "\n".join(lines)])


def _difference(splits: Splits, answer: str, network: str) -> str:
    """Mean and paired standard error of an answer minus the network."""
    gap, error = paired_difference(splits, answer, network)
    return f"{gap:+.3f} ± {error:.3f}"
