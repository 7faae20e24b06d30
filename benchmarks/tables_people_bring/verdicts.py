"""Which warnings were missing and which were false, as tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tables import markdown

Case = dict[str, Any]
SIGNIFICANT = 2  # standard errors
CONFIRMING = 5  # the first seed that had no part in choosing the rule
NEGLIGIBLE = 0.01  # nats a row: an answer that is a constant has no error bars, and no gain either


def read_cases(folder: Path) -> dict[str, list[Case]]:
    """All finished cases of each table, by seed."""
    found: dict[str, list[Case]] = {}
    for path in sorted(folder.glob("*/*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(case["table"], []).append(case)
    return found


def worse(case: Case, than: str = "over_constant") -> bool:
    """By its log score or by its errors, significantly."""
    return any(gain < -SIGNIFICANT * error for gain, error in case[than].values())


def better(case: Case, least: float = NEGLIGIBLE) -> bool:
    """By its log score, significantly and by more than nothing, and not worse by its errors."""
    gain, error = case["over_constant"]["log_score"]
    return gain > max(least, SIGNIFICANT * error) and not worse(case)


def missing(case: Case) -> bool:
    return worse(case) and not case["warned"]


def false(case: Case) -> bool:
    return better(case) and bool(case["warned"])


def table(cases: dict[str, list[Case]]) -> str:
    """One line for each table."""
    head = ["table", "rows × columns", "gain (nats)", "better", "worse", "warned", "missing"]
    head += ["false", "over the network", "seconds"]
    lines = []
    for name, own in cases.items():
        gain = sum(case["over_constant"]["log_score"][0] for case in own) / len(own)
        beyond = sum(case["over_network"]["log_score"][0] for case in own) / len(own)
        counts = (sum(map(test, own)) for test in (better, worse, _warned, missing, false))
        size = f"{own[0]['rows']} × {own[0]['columns']}"
        seconds = max(case["seconds"] for case in own)
        lines.append(
            [name, size, f"{gain:+.2f}", *map(str, counts), f"{beyond:+.3f}", f"{seconds:.0f}"]
        )
    return markdown(head, lines)


def summary(cases: dict[str, list[Case]]) -> str:
    """The counts that matter, for seeds that chose the rule and for those that confirm it."""
    every = [case for own in cases.values() for case in own]
    chosen = [case for case in every if case["seed"] < CONFIRMING]
    return "\n".join(
        f"{name}: {_counts(part)}"
        for name, part in (
            (f"Seeds below {CONFIRMING}, on which the rule was chosen", chosen),
            ("Others, which confirm it", [case for case in every if case not in chosen]),
        )
        if part
    )


def _counts(cases: list[Case]) -> str:
    good, wrong = sum(map(better, cases)), sum(map(false, cases))
    any_gain = [case for case in cases if better(case, least=0.0)]
    return (
        f"{len(cases)} cases. {sum(map(worse, cases))} are significantly worse than a constant "
        f"answer, {sum(map(missing, cases))} of them without a warning. {good} are significantly "
        f"better, {wrong} of them with a false warning ({wrong / len(cases):.0%} of all cases; "
        f"{sum(map(_warned, any_gain))} of {len(any_gain)} if gains below {NEGLIGIBLE} nats a row "
        f"count too). {sum(worse(case, 'over_network') for case in cases)} are significantly worse "
        "than the network alone."
    )


def _warned(case: Case) -> bool:
    return bool(case["warned"])
