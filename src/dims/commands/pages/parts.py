"""Pieces of the data of a page: tables, settings as pairs, sections of a run, how to cite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dims.commands.pages.style import LABELS

__all__ = ["CITATION", "column", "confidence_sets", "motion", "pairs", "table"]

ALONG_THE_WAY = ("positions", "loss", "kinetic_energy", "energy")

CITATION = """@article{jacobsen2026dims,
  title  = {Don't Stop Me Yet: Sampling Loss Minima via Dissipative Riemannian Mechanics},
  author = {Jacobsen, Albert Kjøller and Jakobsen, Leo Uhre and Gegenfurtner, Johanna Marie
            and Arvanitidis, Georgios},
  year   = {2026},
  note   = {Preprint}
}"""


def column(label: str, hint: str = "") -> dict[str, str]:
    return {"label": label, "hint": hint}


def table(
    name: str,
    title: str,
    note: str,
    columns: Sequence[dict[str, str]],
    rows: Sequence[Sequence[Any]],
    filter_by: Sequence[str] = (),
) -> dict[str, Any]:
    """A table that the page sorts, and filters by some columns; empty ones are left out."""
    kept = [i for i in range(len(columns)) if any(row[i] is not None for row in rows)]
    columns, rows = [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]
    labels = [entry["label"] for entry in columns]
    return {
        "id": name,
        "title": title,
        "note": note,
        "columns": list(columns),
        "rows": [[_shortened(cell) for cell in row] for row in rows],
        "filters": [labels.index(name) for name in filter_by if name in labels],
    }


def pairs(settings: Any, prefix: str = "") -> list[list[Any]]:
    """Nested settings as (name, value), names joined by dots."""
    if not isinstance(settings, dict):
        return [[prefix, _plain(settings)]]
    return [
        pair
        for key, value in settings.items()
        for pair in pairs(value, f"{prefix}.{key}" if prefix else str(key))
    ]


def confidence_sets(
    found: dict[str, Any], known: str, auroc: dict[str, float] | None = None
) -> list[dict[str, Any]]:
    """Shares of a known and of foreign sets in bins of confidence, the known one first."""
    shares = {f"{known} (known)": found["known"], **dict(sorted(found["foreign"].items()))}
    return [
        {"name": str(name), "shares": [float(s) for s in values], "auroc": (auroc or {}).get(name)}
        for name, values in shares.items()
    ]


def motion(found: dict[str, Any]) -> dict[str, Any]:
    """Trajectories, and the ground under them where it is known."""
    paths = found.get("trajectories", [])
    for path in paths:
        if any(len(path[key]) != len(path["times"]) for key in ALONG_THE_WAY):
            raise ValueError(f"trajectory {path['label']!r}: not a value for every time")
    ground: dict[str, Any] = {
        key: found[key] for key in ("landscape", "plane_share") if key in found
    }
    shown = [{**path, "method": LABELS.get(path["method"], path["method"])} for path in paths]
    return {"trajectories": shown, **ground}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, list, tuple)):
        return str(value)
    return value if isinstance(value, (int, float, str)) else str(value)


def _shortened(cell: Any) -> Any:
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell
