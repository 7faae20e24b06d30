"""On how many sets an answer is as good as it should be: one line for each question."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "FAR",
    "Splits",
    "aurocs",
    "cost",
    "counts",
    "have",
    "mean",
    "mean_ranks",
    "paired_difference",
    "rank_difference",
]

LEVEL = 0.01  # nats above the network that count as none
UNSURE = 0.03  # the same, where the paired 95 % interval contains 0
FAR = ("auroc permuted", "auroc moved", "auroc class")
Splits = Sequence[Mapping[str, Any]]


def counts(results: Mapping[tuple[str, str], Splits], ours: str, theirs: str, network: str) -> str:
    """Beside the network and an ensemble: NLL where no class is left out, AUROC everywhere.

    Args:
        results: The splits by set and way of training.
        ours: The answer.
        theirs: The ensemble that sees the same rows.
        network: The network that does.
    """
    whole = {key: splits for key, splits in results.items() if key[1] != "class"}
    gaps = {key: paired_difference(splits, ours, network) for key, splits in whole.items()}
    fine = sum(
        gap <= LEVEL or (gap <= UNSURE and gap <= 1.96 * error) for gap, error in gaps.values()
    )
    lower = sum(gap < -error for gap, error in gaps.values())
    worst = max(gaps, key=lambda key: gaps[key][0])
    best = sum(mean(s, ours, "nll") <= mean(s, theirs, "nll") for s in whole.values())
    cases = [
        tuple(mean(splits, answer, far) for answer in (ours, theirs, network))
        for splits in results.values()
        for far in FAR
        if any(far in split["scores"][ours] for split in splits)
    ]
    level = sum(a >= b for a, b, _ in cases)
    behind = min(a - alone for a, _, alone in cases)
    lines = [
        f"not worse than the network on {fine} of {len(gaps)} "
        f"(at worst {gaps[worst][0]:+.3f} ± {gaps[worst][1]:.3f}, {', '.join(worst)}), "
        f"lower by more than a standard error on {lower}",
        f"NLL at most the ensemble's on {best} of {len(gaps)}",
        "rank minus the ensemble's on single splits {:+.2f} ± {:.2f}".format(
            *rank_difference(whole, (network, theirs, ours))
        ),
        f"AUROC at least the ensemble's in {level} of {len(cases)}, "
        f"at worst {behind:+.3f} beside the network's",
    ]
    ratios = [cost(splits, ours, theirs) for splits in whole.values()]
    lines.append(f"{min(ratios):.1f} to {max(ratios):.1f} times the ensemble's seconds")
    return "\n".join(f"{ours}: {line}" for line in lines)


def paired_difference(splits: Splits, answer: str, network: str) -> tuple[float, float]:
    """Mean of the NLL minus the network's, and its paired standard error."""
    gaps = [s["scores"][answer]["nll"] - s["scores"][network]["nll"] for s in splits]
    return statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))


def cost(splits: Splits, ours: str, theirs: str) -> float:
    """Seconds of one answer over those of another."""
    return statistics.fmean(s["seconds"][ours] / s["seconds"][theirs] for s in splits)


def have(splits: Splits, answer: str) -> bool:
    """Whether all of them have this answer."""
    return all(answer in split["scores"] for split in splits)


def mean_ranks(sets: Sequence[Splits], names: Sequence[str]) -> str:
    """By mean NLL on each set, and by NLL on each split: 1 is best."""
    by_set = [_ranks([mean(splits, name, "nll") for name in names]) for splits in sets]
    by_split = [
        [
            statistics.fmean(ranks)
            for ranks in zip(
                *(_ranks([split["scores"][name]["nll"] for name in names]) for split in splits),
                strict=True,
            )
        ]
        for splits in sets
    ]
    columns = zip(names, zip(*by_set, strict=True), zip(*by_split, strict=True), strict=True)
    shown = [(name, statistics.fmean(a), statistics.fmean(b)) for name, a, b in columns]
    single = ", ".join(f"{rank:.2f}" for _, _, rank in shown)
    means = "; ".join(f"{name} {rank:.2f}" for name, rank, _ in shown)
    return f"{means} (single splits: {single})"


def rank_difference(
    results: Mapping[tuple[str, str], Splits], names: Sequence[str]
) -> tuple[float, float]:
    """Mean rank of the last answer minus that of the one before, and its standard error.

    Ways of training share their splits: the error is that of their means over the ways.
    """
    found: dict[tuple[str, int], list[float]] = {}
    for (name, _), splits in results.items():
        for number, split in enumerate(splits):
            ranks = _ranks([split["scores"][each]["nll"] for each in names])
            found.setdefault((name, number), []).append(ranks[-1] - ranks[-2])
    means = [statistics.fmean(each) for each in found.values()]
    every = [gap for gaps in found.values() for gap in gaps]
    return statistics.fmean(every), statistics.stdev(means) / math.sqrt(len(means))


def _ranks(values: Sequence[float]) -> list[int]:
    return [1 + sum(other < value for other in values) for value in values]


def mean(splits: Splits, answer: str, score: str) -> float:
    """Of those splits that have it: a class may have no test rows."""
    found = (split["scores"][answer] for split in splits)
    return statistics.fmean(scores[score] for scores in found if score in scores)


def aurocs(splits: Splits, answer: str) -> str:
    """Permuted, moved, and of the class that was left out, where there is one."""
    known = [far for far in FAR if any(far in split["scores"][answer] for split in splits)]
    return ", ".join(f"{mean(splits, answer, far):.2f}" for far in known)
