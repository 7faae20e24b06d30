"""DiMS draws that come to rest in distinct sets of minima, and a geodesic that does not."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import COLOURS
from dims_paper.figures.common import columns, draw_landscape, draw_path
from dims_paper.schema import Run


def draw(run: Run, plt: Any) -> Any:
    """Left the paths, coloured by how fast they lose energy; right the energies against time."""
    figure, (space, time) = plt.subplots(1, 2, figsize=(9.4, 4.2), width_ratios=(1.2, 1))
    draw_landscape(space, run.figure["landscape"], 2.0)
    drawn = [t for t in run.figure["trajectories"] if t["method"] == "dims"]
    free = [t for t in run.figure["trajectories"] if t["method"] == "rla"]
    for trajectory in free:
        draw_path(space, trajectory, COLOURS["rla"], label="geodesic, stopped")
    lines = None
    for trajectory in drawn:
        lines = _coloured(space, trajectory)
        x, y = columns(trajectory)
        space.plot(x[-1], y[-1], "o", color=COLOURS["dims"], markeredgecolor="white", zorder=6)
    space.plot([], [], "o", color=COLOURS["dims"], markeredgecolor="white", label="DiMS at its end")
    space.plot(*run.settings["start"], "o", color="black", zorder=7, label="start")
    space.set_aspect("equal")
    space.set_title("paths over the rings of minima")
    space.legend(loc="upper left", fontsize=8, frameon=True, framealpha=0.9)
    figure.colorbar(lines, ax=space, label="energy lost per unit of time, 2ηT (log₁₀)", shrink=0.9)
    for trajectory in (*free, *drawn):
        energy = np.asarray(trajectory["kinetic_energy"]) + np.asarray(trajectory["loss"])
        colour = COLOURS[trajectory["method"]]
        time.plot(trajectory["times"], energy, color=colour, alpha=0.9, linewidth=1.3)
    time.axhline(2.0, color="black", linewidth=0.8, linestyle="--")
    time.text(time.get_xlim()[1], 2.1, "height of the ridges", ha="right", va="bottom", fontsize=8)
    time.set_yscale("log")
    time.set_title("energy T + L along the way")
    time.set_xlabel("time t")
    time.set_ylabel("energy")
    return figure


def _coloured(axis: Any, trajectory: dict[str, Any]) -> Any:
    from matplotlib.collections import LineCollection

    points = columns(trajectory).T
    segments = np.stack([points[:-1], points[1:]], axis=1)
    power = np.log10(np.maximum(trajectory["dissipation"], 1e-6))
    under = LineCollection(list(segments), colors="black", linewidths=1.9)
    lines = LineCollection(list(segments), cmap="Reds_r", array=power[:-1], linewidths=1.2)
    lines.set_clim(-3, 2)
    axis.add_collection(under)
    return axis.add_collection(lines)
