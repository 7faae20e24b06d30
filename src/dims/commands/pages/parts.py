"""Building blocks of a page: tables, settings, trajectories, confidence, citation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dims.commands.pages.style import LABELS

__all__ = [
    "CITATION",
    "column",
    "confidence_sets",
    "decimals_of",
    "in_figures",
    "motion",
    "pairs",
    "table",
]

MOST_DECIMALS = 6  # smaller numbers are shown with an exponent
ONE_PER_TIME = ("positions", "loss", "kinetic_energy", "energy")

# The keys of a confidence file; files of version 0.1 have the second names.
OLD_KEYS = {"in_distribution": "known", "ood": "foreign"}  # old name

CITATION = """@article{jacobsen2026dims,
  title  = {Don't Stop Me Yet: Sampling Loss Minima via Dissipative Riemannian Mechanics},
  author = {Jacobsen, Albert Kjøller and Jakobsen, Leo Uhre and Gegenfurtner, Johanna Marie
            and Arvanitidis, Georgios},
  year   = {2026},
  note   = {Preprint}
}"""


def column(label: str, hint: str = "", decimals: int | None = None) -> dict[str, Any]:
    """The head of a column; `hint` is its tooltip, `decimals` are those of all its numbers."""
    fixed = {} if decimals is None else {"decimals": decimals}
    return {"label": label, "hint": hint, **fixed}


def decimals_of(values: Sequence[Any]) -> int | None:
    """Decimals with which numbers show four digits of what they differ by; None for other cells.

    Years such as 2019.354 keep their fractions, and prices such as 201354.7 lose them.
    """
    numbers = [value for value in values if isinstance(value, (int, float))]
    if all(value == round(value) for value in numbers) or len(numbers) < len(values):
        return None
    return _decimals(max(numbers) - min(numbers) or abs(numbers[0]))


def in_figures(value: float, unit: float) -> str:
    """A number with four digits of its unit, without an exponent where that is short."""
    decimals = _decimals(unit)
    return f"{value:.6g}" if decimals is None or abs(value) >= 1e15 else f"{value:.{decimals}f}"


def _decimals(unit: float) -> int | None:
    found = max(0, 3 - math.floor(math.log10(unit)))
    return found if found <= MOST_DECIMALS else None


def table(
    name: str,
    title: str,
    note: str,
    columns: Sequence[dict[str, Any]],
    rows: Sequence[Sequence[Any]],
    filter_by: Sequence[str] = (),
) -> dict[str, Any]:
    """A table that the reader can sort by every column and filter by some.

    Args:
        name: The id of its section.
        title: The heading of its section.
        note: A sentence below the heading.
        columns: Heads of the columns, from `column`.
        rows: One value per column. Columns without any value are omitted.
        filter_by: Labels of the columns that get a filter.

    Returns:
        The table as data of a page.
    """
    kept = [i for i in range(len(columns)) if any(row[i] is not None for row in rows)]
    columns, rows = [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]
    labels = [entry["label"] for entry in columns]
    return {
        "id": name,
        "title": title,
        "note": note,
        "columns": list(columns),
        "rows": [
            [
                cell if "decimals" in head else _shortened(cell)
                for head, cell in zip(columns, row, strict=True)
            ]
            for row in rows
        ],
        "filters": [labels.index(name) for name in filter_by if name in labels],
    }


def pairs(settings: Any, prefix: str = "") -> list[list[Any]]:
    """Nested settings as (name, value) pairs; nested names are joined by dots."""
    if not isinstance(settings, dict):
        return [[prefix, _plain(settings)]]
    return [
        pair
        for key, value in settings.items()
        for pair in pairs(value, f"{prefix}.{key}" if prefix else str(key))
    ]


def confidence_sets(
    found: dict[str, Any], name: str, auroc: dict[str, float] | None = None
) -> list[dict[str, Any]]:
    """Histograms of the confidence on in-distribution and OOD data, in-distribution first.

    Args:
        found: `in_distribution`, the share of inputs in each confidence bin, and `ood`, the same
            for every OOD set by name. Older files call them by the names in `OLD_KEYS`.
        name: What the in-distribution set is called.
        auroc: The AUROC of each OOD set, where it is available.

    Returns:
        One entry per set, with its name, its shares and its AUROC or None.
    """
    inside, outside = (found[new] if new in found else found[old] for new, old in OLD_KEYS.items())
    shares = {f"{name} (in-distribution)": inside, **dict(sorted(outside.items()))}
    return [
        {"name": str(name), "shares": [float(s) for s in values], "auroc": (auroc or {}).get(name)}
        for name, values in shares.items()
    ]


def motion(found: dict[str, Any]) -> dict[str, Any]:
    """Trajectories, and the loss on the plane below them where the file has it."""
    paths = found.get("trajectories", [])
    for path in paths:
        if any(len(path[key]) != len(path["times"]) for key in ONE_PER_TIME):
            raise ValueError(f"trajectory {path['label']!r}: not one value per time")
    landscape: dict[str, Any] = {
        key: found[key] for key in ("landscape", "plane_share") if key in found
    }
    shown = [{**path, "method": LABELS.get(path["method"], path["method"])} for path in paths]
    return {"trajectories": shown, **landscape}


def _plain(value: Any) -> Any:
    """A number or a string."""
    if value is None or isinstance(value, (bool, list, tuple)):
        return str(value)
    return value if isinstance(value, (int, float, str)) else str(value)


def _shortened(cell: Any) -> Any:
    """Six significant digits."""
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell
