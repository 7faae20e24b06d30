"""On how many sets an answer is as good as it should be: one line for each question."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from dims_paper.datasets.uci_regression import load_published
from uci_regression.published_table import METHODS, cost, difference, mean_and_error

__all__ = ["counts"]

WITHIN = 2.0  # standard errors of a difference
BOTH = ("MC dropout", "Deep ensemble of 5")
COVERED = (0.92, 0.98)  # of 95 % intervals
FAR = ("auroc permuted", "auroc moved")
Splits = Sequence[Mapping[str, Any]]


def counts(results: Mapping[str, Splits], answer: str, chosen_on: Sequence[str]) -> str:
    """Of all sets with two splits or more, and of those that only confirm the rules."""
    known = {
        name: [split for split in splits if answer in split["scores"]]
        for name, splits in results.items()
    }
    known = {name: splits for name, splits in known.items() if len(splits) > 1}
    halves = {
        "all sets": known,
        "confirmation half": {n: s for n, s in known.items() if n not in chosen_on},
    }
    lines = [
        f"{half}, {answer}: {line}"
        for half, sets in halves.items()
        if sets
        for line in (*_published(sets, answer), _coverage(sets, answer))
    ]
    if known:
        lines += [f"all sets, {answer}: {line}" for line in _own(known, answer)]
    return "\n".join(lines)


def _published(sets: Mapping[str, Splits], answer: str) -> list[str]:
    """Beside each published method, and beside two of them at once."""
    entries = {(entry.dataset, entry.method): entry for entry in load_published()}
    gaps: dict[str, dict[str, float]] = {method: {} for method in METHODS}
    for name, splits in sets.items():
        ours = mean_and_error([split["scores"][answer]["nll"] for split in splits])
        for method in METHODS:
            entry = entries.get((name, method))
            if entry is not None:
                gaps[method][name] = difference(ours, (entry.nll, entry.nll_error))
    lines = []
    for method, found in gaps.items():
        fine, better = (sum(gap <= limit for gap in found.values()) for limit in (WITHIN, -WITHIN))
        lines.append(f"{method}: within two or better on {fine} of {len(found)}, better {better}")
    both = sum(all(gaps[m].get(name, math.inf) <= -WITHIN for m in BOTH) for name in sets)
    return [*lines, f"{' and '.join(BOTH)}: better than both on {both}"]


def _coverage(sets: Mapping[str, Splits], answer: str) -> str:
    means = {name: _mean(splits, answer, "coverage") for name, splits in sets.items()}
    good = [name for name, mean in means.items() if COVERED[0] <= mean <= COVERED[1]]
    other = ", ".join(f"{name} {means[name]:.3f}" for name in means if name not in good)
    return f"coverage between .92 and .98 on {len(good)} of {len(means)} ({other or 'all'})"


def _own(sets: Mapping[str, Splits], answer: str) -> list[str]:
    """Beside our own ensemble and the network: rank, AUROC and cost."""
    sets = {
        name: [split for split in splits if "ensemble" in split["scores"]]
        for name, splits in sets.items()
    }
    sets = {name: splits for name, splits in sets.items() if splits}
    if not sets:
        return []
    lower = sum(_mean(s, answer, "nll") < _mean(s, "ensemble", "nll") for s in sets.values())
    cases = [
        tuple(_mean(splits, a, far) for a in (answer, "ensemble", "network"))
        for splits in sets.values()
        for far in FAR
    ]
    fine = sum(ours >= ensemble for ours, ensemble, _ in cases)
    worst = min(ours - network for ours, _, network in cases)
    found = {name: cost(splits, answer) for name, splits in sets.items()}
    ratios = {name: statistics.fmean(each) for name, each in found.items() if each}
    dear = max(ratios, key=ratios.__getitem__, default=None)
    told = "" if dear is None else f"at most {ratios[dear]:.1f} times the ensemble's seconds"
    return [
        f"NLL lower than that of our own ensemble on {lower} of {len(sets)}",
        f"AUROC at least the ensemble's in {fine} of {len(cases)}, "
        f"at worst {worst:+.3f} beside the network's",
        *([f"{told} on a CPU ({dear})"] if told else []),
    ]


def _mean(splits: Splits, answer: str, score: str) -> float:
    return statistics.fmean(split["scores"][answer][score] for split in splits)
