"""Panels of function-space samples, shared by the regression figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import DATA_COLOUR, GAP_COLOUR, LABELS, colour_of, method_key
from dims_paper.schema import Row


def draw_points(axis: Any, points: dict[str, Any], size: float = 4) -> None:
    """Training points filled; points of the gap, which no method has seen, hollow."""
    colours = {"train": (DATA_COLOUR, DATA_COLOUR), "gap": (GAP_COLOUR, "#444444")}
    names = {"train": "training data", "gap": "data in the gap"}
    for part, pairs in points.items():
        face, edge = colours[part]
        x, y = np.asarray(pairs, dtype=float).T
        axis.plot(
            x, y, "o", markersize=size, markerfacecolor=face, markeredgecolor=edge,
            markeredgewidth=0.5, linestyle="none", label=names[part], zorder=4,
        )  # fmt: skip


def draw_functions(axis: Any, grid: list[float], row: Row, curves: int = 30) -> None:
    """Thin lines of single draws, their mean, and a band of two standard deviations."""
    colour = colour_of(row.method)
    x, mean, std = (
        np.asarray(v, dtype=float) for v in (grid, row.figure["mean"], row.figure["std"])
    )
    if len(row.figure["curves"]) > 1:
        axis.fill_between(x, mean - 2 * std, mean + 2 * std, color=colour, alpha=0.18, linewidth=0)
        drawn = np.asarray(row.figure["curves"][:curves], dtype=float)
        axis.plot(x, drawn.T, color=colour, alpha=0.35, linewidth=0.7)
    axis.plot(x, mean, color=colour, linewidth=1.8)
    axis.set_title(LABELS.get(method_key(row.method), row.method))
    axis.set_xlabel("input x")
