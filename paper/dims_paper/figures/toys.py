"""The figures of motion on small surfaces: sphere, curve, surface-2d and breakdown."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import COLOURS
from dims_paper.figures.style import LOSS_MAP
from dims_paper.schema import Run

TOWARDS_VIEWER = np.array([1.0, 0.55, 0.5]) / np.linalg.norm([1.0, 0.55, 0.5])
FLOOR = -1.6  # where the plane of parameters is drawn, below the manifold
ARROWS = {"along": "white", "across": "black"}


def draw_sphere(run: Run, plt: Any) -> Any:
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


def draw_curve(run: Run, plt: Any) -> Any:
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


def draw_surface_2d(run: Run, plt: Any) -> Any:
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


def draw_breakdown(run: Run, plt: Any) -> Any:
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


def columns(trajectory: dict[str, Any]) -> Any:
    """The coordinates of a trajectory, one array each."""
    return np.asarray(trajectory["positions"], dtype=float).T


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
