"""What learning the held-out rows is worth, to us and to the ensemble."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from uci_classification.counts import Splits, mean, mean_ranks, paired_difference

__all__ = ["AGAIN", "learnt"]

AGAIN, UNLEARNT = "ensemble, trained again", "held out, not learnt"


def learnt(results: Mapping[tuple[str, str], Splits], ours: str, network: str) -> list[str]:
    """Ranks beside the ensemble that learns these rows too, and beside our own draws before.

    Args:
        results: The splits by set and way of training.
        ours: The answer that has learnt the held-out rows.
        network: The network whose training they stopped.
    """
    whole = [splits for key, splits in results.items() if key[1] != "class"]
    lower = sum(mean(s, ours, "nll") <= mean(s, AGAIN, "nll") for s in whole)
    gaps = [paired_difference(splits, ours, UNLEARNT)[0] for splits in whole]
    fewer = sum(gap < 0 for gap in gaps)
    return [
        f"Mean rank by NLL, all classes: {mean_ranks(whole, (network, AGAIN, ours))}",
        f"{ours}: NLL at most that of the ensemble trained again on {lower} of {len(whole)}",
        f"{ours}: {statistics.fmean(gaps):+.3f} in mean NLL by learning these rows, lower on "
        f"{fewer} of {len(gaps)}",
    ]
