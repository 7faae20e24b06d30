"""The paper's figures, one file each, drawn from saved results only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dims.commands.pages.style import figure_style, save_figure
from dims_paper.figures import banana, breakdown, curve, sinusoid, snelson, sphere, surface_2d
from dims_paper.schema import Run

FIGURES: dict[str, Callable[[Run, Any], Any]] = {
    "sphere": sphere.draw,
    "sinusoid": sinusoid.draw,
    "curve": curve.draw,
    "surface-2d": surface_2d.draw,
    "breakdown": breakdown.draw,
    "snelson": snelson.draw,
    "banana": banana.draw,
}


def write_figure(run: Run, path: Path) -> list[Path]:
    """PNG and PDF of a result of `dims reproduce`."""
    name = run.experiment
    if name not in FIGURES:
        raise ValueError(f"run: no figure for {name!r}; there are {', '.join(FIGURES)}")
    with figure_style() as plt:
        return save_figure(FIGURES[name](run, plt), path)
