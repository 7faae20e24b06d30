"""Figure 2: functions by RLA, functions by DiMS, and the loss along their paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import colour_of
from dims_paper.figures.functions import draw_functions, draw_points
from dims_paper.schema import Run


def draw(run: Run, plt: Any) -> Any:
    """Three panels side by side."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.3))
    for axis, row in zip(axes[:2], run.rows, strict=True):
        draw_functions(axis, run.figure["grid"], row)
        draw_points(axis, run.figure["points"], size=6.0)
        axis.set_ylim(-3, 3)
        axis.set_title(f"{row.method}: {run.draws} functions")
        axis.set_ylabel("output f(x)")
    axes[0].legend(loc="lower center")
    _losses(axes[2], run.figure["losses"])
    return figure


def _losses(axis: Any, losses: list[dict[str, Any]]) -> None:
    """RLA ends at t = 1 and DiMS much later, so time is shown as a part of the whole."""
    for entry in losses:
        times = np.asarray(entry["times"], dtype=float)
        low, middle, high = np.asarray(entry["quantiles"], dtype=float)
        colour = colour_of(entry["method"])
        part = times / times[-1]
        axis.plot(part, middle, color=colour, label=f"{entry['method']}, to t = {times[-1]:g}")
        axis.fill_between(part, low, high, color=colour, alpha=0.2, linewidth=0)
    axis.set_yscale("log")
    axis.set_title("loss along the paths (median, 90 %)")
    axis.set_xlabel("part of the time")
    axis.set_ylabel("training loss L(θ)")
    axis.legend()
