"""Pieces that several figures share."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import LOSS_MAP
from dims_paper.schema import Run


def columns(trajectory: dict[str, Any]) -> Any:
    """The coordinates of a trajectory, one array each."""
    return np.asarray(trajectory["positions"], dtype=float).T


def described(run: Run) -> str:
    """How many draws, and how they were made: a figure of a short run must say so."""
    settings = run.settings
    friction, time = settings["friction"], settings["max_time"]
    return f"{run.draws} draws; DiMS with η₀ = {friction:g}, t₁ = {time:g}"


def axes_of(ground: dict[str, Any]) -> tuple[Any, Any]:
    """The grid on which a loss was kept."""
    (left, right), (bottom, top) = ground["x"], ground["y"]
    rows, width = np.shape(ground["loss"])
    return np.linspace(left, right, width), np.linspace(bottom, top, rows)


def draw_landscape(axis: Any, ground: dict[str, Any], highest: float, label: str = "") -> Any:
    """Filled contours of the loss up to a highest value, dark where it is low."""
    loss = np.asarray(ground["loss"], dtype=float)
    x, y = axes_of(ground)
    levels = np.linspace(0, highest, 10)
    filled = axis.contourf(
        x, y, loss, levels, cmap=LOSS_MAP, extend="max", antialiased=False, alpha=0.8
    )
    filled.set_rasterized(True)  # a small PDF
    axis.set_xlim(*ground["x"])
    axis.set_ylim(*ground["y"])
    axis.grid(visible=False)
    axis.set_xlabel("parameter θ₁")
    axis.set_ylabel("parameter θ₂")
    if label:
        axis.figure.colorbar(filled, ax=axis, label=label, shrink=0.9)
    return filled


def draw_path(axis: Any, trajectory: dict[str, Any], colour: str, **options: Any) -> None:
    """A line with a light edge, so that it shows on light and dark ground, and a dot at its end."""
    from matplotlib import patheffects

    x, y = columns(trajectory)[:2]
    edge = [patheffects.Stroke(linewidth=3, foreground="white"), patheffects.Normal()]
    axis.plot(x, y, color=colour, linewidth=1.6, path_effects=edge, **options)
    axis.plot(x[-1], y[-1], "o", color=colour, markeredgecolor="white", markersize=6, zorder=5)
