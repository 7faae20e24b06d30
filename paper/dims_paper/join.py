"""Rows that were computed later than the tables of their run, put beside them."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["joined"]

SAME_RUN = ("experiment", "dataset", "protocol", "curvature_kind", "seed")
SAME_NETWORK = 1e-3  # relative difference of the gradient norm; results keep five digits of it


def joined(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs with the rows of their `_more.json` after their own; one without its run stays.

    `same_network` says whether training again gave the network of the tables: it does on one
    kind of machine, but rounding differs between kinds.
    """
    bases = [dict(run) for run in runs if "more" not in run]
    places = {_key(run): run for run in bases if _trained(run)}
    alone = []
    for run in runs:
        if "more" not in run:
            continue
        base = places.get(_key(run))
        if base is None:
            alone.append(run)
            continue
        base["rows"] = [*base["rows"], *run["rows"]]
        base["settings"] = {**base.get("settings", {}), **run["more"]}
        norms = (run.get("gradient_norm", math.nan), base.get("gradient_norm", math.nan))
        base["same_network"] = math.isclose(*norms, rel_tol=SAME_NETWORK)
    return bases + alone


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(run.get(name) for name in SAME_RUN)


def _trained(run: dict[str, Any]) -> bool:
    """Runs from untrained weights have the names of those from trained ones, and no such rows."""
    return bool(run.get("settings", {}).get("trained", True))
