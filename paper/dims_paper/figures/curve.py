"""The schematic: a curve on the loss manifold and its path in parameter space below."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import COLOURS, LOSS_MAP
from dims_paper.figures.common import axes_of, columns
from dims_paper.schema import Run

FLOOR = -1.6  # where the plane of parameters is drawn, below the manifold


def draw(run: Run, plt: Any) -> Any:
    """Manifold M above, parameter space Θ below, joined by the chart h(θ) = (θ, L(θ))."""
    figure = plt.figure(figsize=(6.4, 5.2))
    axis = figure.add_subplot(projection="3d", computed_zorder=False)
    ground = run.figure["landscape"]
    loss = np.asarray(ground["loss"])
    x, y = np.meshgrid(*axes_of(ground))
    axis.contourf(
        x, y, loss, 14, zdir="z", offset=FLOOR, cmap=LOSS_MAP, alpha=0.45, zorder=1
    ).set_rasterized(True)
    manifold = axis.plot_surface(
        x, y, loss, cmap=LOSS_MAP, alpha=0.75, linewidth=0.2, edgecolor="#FFFFFF40", zorder=2
    )
    manifold.set_rasterized(True)
    trajectory = run.figure["trajectories"][0]
    across, up = columns(trajectory)
    height = np.asarray(trajectory["loss"])
    colour = COLOURS["dims"]
    axis.plot(across, up, height + 0.03, color=colour, linewidth=2.6, zorder=5)
    axis.plot(across, up, FLOOR, color=colour, linewidth=2, linestyle="--", zorder=4)
    for i in (0, len(across) // 3, 2 * len(across) // 3, len(across) - 1):
        ends = [[across[i]] * 2, [up[i]] * 2, [FLOOR, height[i]]]
        axis.plot(*ends, color="black", linewidth=0.7, linestyle=":", zorder=3)
    start = across[0], up[0]
    velocity = 0.6 * np.asarray(run.settings["velocity"])
    axis.quiver(*start, height[0], *velocity, 0.6 * run.figure["climb"], color="black", zorder=6)
    axis.quiver(*start, FLOOR, *velocity, 0, color="black", zorder=6)
    _names(axis, across, up, height)
    axis.set_xlabel("parameter θ₁")
    axis.set_ylabel("parameter θ₂")
    axis.set_zlabel("loss L(θ)")
    axis.set_zlim(FLOOR, 2.2)
    axis.set_zticks([0, 1, 2])
    axis.set_xticks([-2, -1, 0, 1, 2])
    axis.set_yticks([-2, -1, 0, 1, 2])
    axis.view_init(elev=34, azim=-68)
    axis.set_box_aspect((1, 1, 0.95), zoom=0.88)
    axis.set_title("a curve on the manifold and its path in parameter space")
    return figure


def _names(axis: Any, across: Any, up: Any, height: Any) -> None:
    middle = len(across) // 2
    options = {"fontsize": 11, "zorder": 8, "fontstyle": "italic"}
    axis.text(across[0] - 0.25, up[0], height[0] + 0.12, "μ", **options)
    axis.text(across[0] - 0.25, up[0], FLOOR + 0.1, "μ̃", **options)
    axis.text(across[middle], up[middle], height[middle] + 0.22, "γ(t)", **options)
    axis.text(across[middle], up[middle], FLOOR + 0.14, "α(t)", **options)
    axis.text(1.9, 1.9, 2.05, "M", **options)
    axis.text(-1.9, -1.9, FLOOR + 0.02, "Θ", **options)
