"""The paper's figures, one file each, drawn from saved results only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dims.commands.pages.style import figure_style, save_figure
from dims_paper.figures import banana, breakdown, curve, sinusoid, snelson, sphere, surface_2d

__all__ = ["FIGURES", "write_figure"]

FIGURES: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "sphere": sphere.draw,
    "sinusoid": sinusoid.draw,
    "curve": curve.draw,
    "surface-2d": surface_2d.draw,
    "breakdown": breakdown.draw,
    "snelson": snelson.draw,
    "banana": banana.draw,
}


def write_figure(result: dict[str, Any], path: Path) -> list[Path]:
    """PNG and PDF of a result of `dims reproduce`."""
    name = result.get("experiment")
    if name not in FIGURES:
        raise ValueError(f"result: no figure for {name!r}; there are {', '.join(FIGURES)}")
    with figure_style() as plt:
        return save_figure(FIGURES[name](result, plt), path)
