"""Figure 1: a geodesic and a DiMS trajectory around the sphere of minima."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import COLOURS
from dims_paper.figures.common import columns
from dims_paper.schema import Run

TOWARDS_VIEWER = np.array([1.0, 0.55, 0.5]) / np.linalg.norm([1.0, 0.55, 0.5])


def draw(run: Run, plt: Any) -> Any:
    """The trajectories on the sphere, and their loss against time."""
    figure, (space, time) = plt.subplots(1, 2, figsize=(8.2, 3.9), width_ratios=(1, 1.05))
    _ball(space)
    for trajectory in run.figure["trajectories"]:
        colour = COLOURS[trajectory["method"]]
        _path(space, columns(trajectory), colour, trajectory["label"])
        loss = np.maximum(trajectory["loss"], 1e-8)
        time.plot(trajectory["times"], loss, color=colour, label=trajectory["label"])
    space.set_title("parameter space: the sphere holds all minima")
    space.legend(loc="upper left")
    time.set_yscale("log")
    time.set_ylim(bottom=1e-6)
    time.set_title("loss along the way")
    time.set_xlabel("time t")
    time.set_ylabel("loss L(θ) = (‖θ‖² − 1)²")
    time.legend(loc="lower left")
    return figure


def _screen() -> tuple[Any, Any]:
    """Two axes of a screen that faces the viewer."""
    right = np.cross([0.0, 0.0, 1.0], TOWARDS_VIEWER)
    right /= np.linalg.norm(right)
    return right, np.cross(TOWARDS_VIEWER, right)


def _ball(axis: Any) -> None:
    """A shaded disc: what a ball looks like from far away."""
    grid = np.linspace(-1, 1, 401)
    x, y = np.meshgrid(grid, grid)
    inside = x**2 + y**2 <= 1
    depth = np.sqrt(np.clip(1 - x**2 - y**2, 0, None))
    light = np.clip((-0.35 * x + 0.5 * y + 0.79 * depth), 0, 1)
    shade = np.ones((*x.shape, 4))
    shade[..., :3] = (0.62 + 0.35 * light)[..., None]
    shade[..., 3] = inside
    axis.imshow(shade, extent=(-1, 1, -1, 1), origin="lower", interpolation="bilinear")
    axis.set_aspect("equal")
    axis.axis("off")
    axis.set_xlim(-2, 2)
    axis.set_ylim(-2, 2)


def _path(axis: Any, position: Any, colour: str, label: str) -> None:
    """A trajectory from outside; the part that the ball hides is faint."""
    right, up = _screen()
    x, y, depth = right @ position, up @ position, TOWARDS_VIEWER @ position
    radius = np.hypot(x, y)
    hidden = (radius < 1) & (depth < 0)
    axis.plot(x, y, color=colour, linewidth=1, alpha=0.35)
    shown = np.where(hidden, np.nan, x)
    axis.plot(shown, y, color=colour, linewidth=2, label=label)
    axis.plot(x[0], y[0], "o", color="black", markersize=6, zorder=5)
    style = {"alpha": 0.45} if hidden[-1] else {}
    axis.plot(x[-1], y[-1], "o", color=colour, markeredgecolor="white", markersize=8, **style)
