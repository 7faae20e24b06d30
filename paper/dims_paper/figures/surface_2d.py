"""Four dynamics from two start velocities: in parameter space, and their loss against time."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import COLOURS
from dims_paper.figures.common import axes_of, draw_landscape, draw_path
from dims_paper.schema import Run

ARROWS = {"along": "white", "across": "black"}


def draw(run: Run, plt: Any) -> Any:
    """Above the start velocity along the valley, below the one across it."""
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 5.4), width_ratios=(1.5, 1))
    for (space, time), (name, arrow) in zip(axes, ARROWS.items(), strict=True):
        draw_landscape(space, run.figure["landscape"], 4.0)
        _minima(space, run)
        for trajectory in run.figure["trajectories"]:
            if trajectory["start_velocity"] == name:
                colour = COLOURS[trajectory["method"]]
                draw_path(space, trajectory, colour, label=trajectory["label"])
                time.plot(trajectory["times"], trajectory["loss"], color=colour)
        start, velocity = run.settings["start"], run.settings[name]
        space.quiver(*start, *velocity, color=arrow, scale=12, width=0.009, zorder=6)
        space.set_title(f"start velocity {name} the valley ({arrow} arrow); dotted: minima")
        time.set_yscale("symlog", linthresh=1e-2)
        time.set_ylim(bottom=0)
        time.set_xlabel("time t")
        time.set_ylabel("loss L(θ)")
        time.set_title("loss along the way")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def _minima(axis: Any, run: Run) -> None:
    x, _ = axes_of(run.figure["landscape"])
    axis.plot(x, np.sin(x), ":", color="white", linewidth=1.2)
