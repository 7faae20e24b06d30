"""How a run differs from the one in a folder, told by name and value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["explain"]

MOST_THREADS = 4096
MOST_SHOWN = 5
LONGEST = 40  # characters of a value that are shown
# What the fingerprints stand for: a run has others when these changed.
PARTS = {
    "network": "the layers of the network, or what is not sampled of it, changed",
    "weights": "the trained weights changed",
    "data": "the training data changed",
    "loss": "the prior, the noise or the likelihood changed",
}
HASHES = ("fingerprint", "parts", "curvature")  # which say nothing to a person
KEEP = (
    "train once and load the weights afterwards, as the program of `dims init` without --csv does "
    "(with --csv it trains again: keep its settings as they were), or give another folder"
)
UNDO = "undo that, or give another folder"  # loading weights is no help there


def explain(
    found: dict[str, Any], wanted: dict[str, Any], current: Callable[[Any], Any]
) -> str | None:
    """How the manifest of a folder differs from the wanted one, and what to do; None: not at all.

    Threads may differ, and a manifest of the first version has fewer entries.
    """
    first = _same(found.get("version"), 1)
    settings = found.get("settings")
    there = {**found, "settings": current(settings) if isinstance(settings, dict) else settings}
    here = {**wanted, **({"version": 1} if first else {})}
    skipped = {"draws", "count", "parts"} if first else {"draws"}
    if _is_threads(there.get("threads")):
        skipped.add("threads")
    for name in skipped:
        there.pop(name, None)
        here.pop(name, None)
    named = dict(_differences("", there, here))
    if not named:
        return None
    told = [text for name, text in named.items() if not name.startswith(HASHES)]
    # What is tuned follows from weights and data: the cause is named, not what follows from it.
    changed = [PARTS[name] for name in PARTS if f"parts.{name}" in named]
    causes = [what for what in changed if what != PARTS["loss"]] or changed
    if "fingerprint" in named:
        told = [*(causes or ["the network, its weights or its data changed"]), *told]
    elif "curvature" in named:
        told = ["the curvature of the fit changed", *told]
    advice = "give the same values, or another folder"
    if "fingerprint" in named:
        other = PARTS["network"] in changed or PARTS["data"] in changed
        advice = UNDO if other else KEEP
    more = f" and {len(told) - MOST_SHOWN} more" if len(told) > MOST_SHOWN else ""
    return f"{', '.join(told[:MOST_SHOWN])}{more}; {advice}"


def _differences(name: str, there: Any, here: Any) -> Iterator[tuple[str, str]]:
    """The innermost values that differ: their name, and both of them."""
    if _same(there, here):
        return
    if isinstance(there, dict) and isinstance(here, dict):
        for key in here | there:
            inner = key if name in ("", "settings") else f"{name}.{key}"
            yield from _differences(inner, there.get(key), here.get(key))
        return
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for place, (one, other) in enumerate(zip(there, here, strict=True)):
            yield from _differences(f"{name}[{place}]", one, other)
        return
    one, other = _shown(there, here)
    yield name, f"{_brief(name)} is {one} there and {other} here"


def _shown(there: Any, here: Any) -> tuple[str, str]:
    """Both as JSON, long ones from where they begin to differ."""
    one, other = json.dumps(there), json.dumps(here)
    if max(len(one), len(other)) <= LONGEST:
        return one, other
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    begin = max(0, same - LONGEST // 4)
    return _cut(one, begin), _cut(other, begin)


def _cut(text: str, begin: int) -> str:
    before = "…" if begin else ""
    after = "…" if len(text) > begin + LONGEST else ""
    return f"{before}{text[begin : begin + LONGEST]}{after}"


def _brief(name: str) -> str:
    """A name from a file: in one line, and not too long."""
    return _cut(json.dumps(name)[1:-1], 0)


def _same(one: Any, other: Any) -> bool:
    """JSON tells types apart: to Python, true is 1 and 50 is 50.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_threads(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_THREADS
