"""The figures of predictions: functions of sinusoid and Snelson, uncertainty of banana."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import LABELS
from dims_paper.figures.style import (
    DATA_COLOUR,
    GAP_COLOUR,
    UNCERTAINTY_MAP,
    colour_of,
    method_key,
)
from dims_paper.schema import ENSEMBLE, Row, Run

SHOWN = ("map", "la", "linla", "rla", "dims", "dims_settled")


def draw_sinusoid(run: Run, plt: Any) -> Any:
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


def draw_snelson(run: Run, plt: Any) -> Any:
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


def draw_banana(run: Run, plt: Any) -> Any:
    """Variance p̄(1 − p̄) of the predicted class over the plane, with the boundary p̄ = ½."""
    rows = [row for row in run.rows if "map" in row.figure]
    side = run.figure["map"]["side"]
    (left, right), (bottom, top) = run.figure["map"]["x"], run.figure["map"]["y"]
    x, y = np.linspace(left, right, side), np.linspace(bottom, top, side)
    figure, axes = plt.subplots(2, 3, figsize=(9.4, 6.6), sharex=True, sharey=True)
    image = None
    for axis, row in zip(axes.flat, rows, strict=False):
        p = np.asarray(row.figure["map"]["probability"], dtype=float).reshape(side, side)
        image = axis.imshow(
            p * (1 - p), extent=(left, right, bottom, top), origin="lower",
            cmap=UNCERTAINTY_MAP, vmin=0, vmax=0.25, interpolation="bilinear",
        )  # fmt: skip
        axis.contour(x, y, p, [0.5], colors="black", linewidths=1.6)
        axis.contour(x, y, p, [0.5], colors="white", linewidths=0.8)
        _class_points(axis, run.figure["points"])
        name = LABELS.get(method_key(row.method), row.method)
        accuracy = row.metric("test", "accuracy", ENSEMBLE)
        axis.set_title(f"{name}: accuracy {100 * accuracy:.1f} %")
        axis.grid(visible=False)
    for axis in axes[-1]:
        axis.set_xlabel("input x₁")
    for axis in axes[:, 0]:
        axis.set_ylabel("input x₂")
    for axis in list(axes.flat)[len(rows) :]:
        axis.axis("off")
    figure.colorbar(image, ax=axes, label="variance of the predicted class, p̄(1 − p̄)", shrink=0.8)
    figure.suptitle(f"{described(run)}; averaged; white: p̄ = ½", fontsize=9)
    return figure


def _class_points(axis: Any, points: list[list[float]]) -> None:
    x, y, label = np.asarray(points, dtype=float).T
    for value, colour in ((0, "#56B4E9"), (1, "#E69F00")):
        chosen = label == value
        axis.plot(
            x[chosen], y[chosen], "o", color=colour, markersize=2.2, markeredgewidth=0.2,
            markeredgecolor="black",
        )  # fmt: skip


def draw_points(axis: Any, points: dict[str, Any], size: float = 4) -> None:
    """Training points filled; points of the gap, which no method has seen, hollow."""
    colours = {"train": (DATA_COLOUR, DATA_COLOUR), "gap": (GAP_COLOUR, "#444444")}
    names = {"train": "training data", "gap": "data in the gap"}
    for part, pairs in points.items():
        face, edge = colours[part]
        x, y = np.asarray(pairs, dtype=float).T
        axis.plot(
            x, y, "o", markersize=size, markerfacecolor=face, markeredgecolor=edge,
            markeredgewidth=0.5, linestyle="none", label=names[part], zorder=4,
        )  # fmt: skip


def draw_functions(axis: Any, grid: list[float], row: Row, curves: int = 30) -> None:
    """Thin lines of single draws, their mean, and a band of two standard deviations."""
    colour = colour_of(row.method)
    x, mean, std = (
        np.asarray(v, dtype=float) for v in (grid, row.figure["mean"], row.figure["std"])
    )
    if len(row.figure["curves"]) > 1:
        axis.fill_between(x, mean - 2 * std, mean + 2 * std, color=colour, alpha=0.18, linewidth=0)
        drawn = np.asarray(row.figure["curves"][:curves], dtype=float)
        axis.plot(x, drawn.T, color=colour, alpha=0.35, linewidth=0.7)
    axis.plot(x, mean, color=colour, linewidth=1.8)
    axis.set_title(LABELS.get(method_key(row.method), row.method))
    axis.set_xlabel("input x")


def described(run: Run) -> str:
    """How many draws, and how they were made: a figure of a short run must say so."""
    settings = run.settings
    friction, time = settings["friction"], settings["max_time"]
    return f"{run.draws} draws; DiMS with η₀ = {friction:g}, t₁ = {time:g}"
