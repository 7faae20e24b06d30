"""Regression with a gap: function-space draws of every method."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import LABELS, method_key
from dims_paper.figures.common import described
from dims_paper.figures.functions import draw_functions, draw_points
from dims_paper.schema import Run

SHOWN = ("map", "la", "linla", "rla", "dims", "dims_settled")


def draw(run: Run, plt: Any) -> Any:
    """A panel for each method; the band is two standard deviations of the function."""
    rows = [row for row in run.rows if method_key(row.method) in SHOWN]
    figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.4), sharex=True, sharey=True)
    gap = run.settings["gap"]
    start = rows[0].figure["mean"]
    for axis, row in zip(axes.flat, rows, strict=False):
        axis.axvspan(*gap, color="#888888", alpha=0.12, linewidth=0)
        draw_functions(axis, run.figure["grid"], row)
        axis.plot(run.figure["grid"], start, color="black", linewidth=0.8, linestyle="--")
        draw_points(axis, run.figure["points"], size=2.6)
        name = LABELS.get(method_key(row.method), row.method)
        axis.set_title(f"{name}: NLL on the data {row.metric('train', 'nll'):.3g}")
        axis.set_xlabel("input x")
    for axis in axes[:, 0]:
        axis.set_ylabel("output f(x)")
    for axis in list(axes.flat)[len(rows) :]:
        axis.axis("off")
    heights = np.asarray([y for pairs in run.figure["points"].values() for _, y in pairs])
    axes[0, 0].set_ylim(heights.min() - 2, heights.max() + 2)
    axes[0, 0].set_xlim(run.figure["grid"][0], run.figure["grid"][-1])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    figure.suptitle(
        f"{described(run)}; shaded: the gap; dashed: the trained network; "
        "band: two standard deviations",
        fontsize=9,
    )
    return figure
