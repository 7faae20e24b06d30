"""MC dropout beside the others, on the networks that were trained with dropout."""

from __future__ import annotations

from collections.abc import Mapping

from tables import markdown
from uci_classification.counts import FAR, Splits, aurocs, have, mean, mean_ranks, paired_difference

__all__ = ["dropout_table"]

DROPOUT, OURS = "mc dropout", "default"
NAMES = ("network", DROPOUT, "ensemble", OURS)


def dropout_table(results: Mapping[tuple[str, str], Splits]) -> str:
    """NLL and AUROC of the networks as in the paper; a row for each set whose splits have it."""
    known = {
        name: splits
        for (name, protocol), splits in results.items()
        if protocol == "paper" and have(splits, DROPOUT)
    }
    if not known:
        return "no results yet"
    head = ["set", "splits", *(f"NLL {name}" for name in NAMES), "dropout − network"]
    head += [f"AUROC {name}" for name in NAMES]
    rows = []
    for name, splits in known.items():
        gap, error = paired_difference(splits, DROPOUT, "network")
        row = [name, str(len(splits)), *(f"{mean(splits, each, 'nll'):.3f}" for each in NAMES)]
        row += [f"{gap:+.3f} ± {error:.3f}", *(aurocs(splits, each) for each in NAMES)]
        rows.append(row)
    sets = [*known.values()]
    lower = sum(mean(s, OURS, "nll") <= mean(s, DROPOUT, "nll") for s in sets)
    cases = [(s, far) for s in sets for far in FAR[:2]]
    higher = sum(mean(s, OURS, far) >= mean(s, DROPOUT, far) for s, far in cases)
    lines = [
        f"- Mean rank by NLL: {mean_ranks(sets, NAMES)}",
        f"- default: NLL at most that of MC dropout on {lower} of {len(sets)}, AUROC at least "
        f"its in {higher} of {len(cases)}",
    ]
    return "\n\n".join([markdown(head, rows), "\n".join(lines)])
