"""The paper's figures, one file each, drawn from saved results only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dims.commands.pages.style import figure_style
from dims_paper.figures import predictions, toys
from dims_paper.figures.style import save_figure
from dims_paper.schema import Run

FIGURES: dict[str, Callable[[Run, Any], Any]] = {
    "sphere": toys.draw_sphere,
    "sinusoid": predictions.draw_sinusoid,
    "curve": toys.draw_curve,
    "surface-2d": toys.draw_surface_2d,
    "breakdown": toys.draw_breakdown,
    "snelson": predictions.draw_snelson,
    "banana": predictions.draw_banana,
}


def write_figure(run: Run, path: Path) -> list[Path]:
    """PNG and PDF of a result of `dims reproduce`."""
    name = run.experiment
    if name not in FIGURES:
        raise ValueError(f"run: no figure for {name!r}; there are {', '.join(FIGURES)}")
    with figure_style() as plt:
        return save_figure(FIGURES[name](run, plt), path)
