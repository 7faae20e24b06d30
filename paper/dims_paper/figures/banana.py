"""Banana: where every method is sure of its prediction, and where not."""

from __future__ import annotations

from typing import Any

import numpy as np

from dims.commands.pages.style import LABELS, UNCERTAINTY_MAP, method_key
from dims_paper.figures.common import described
from dims_paper.schema import ENSEMBLE, Run


def draw(run: Run, plt: Any) -> Any:
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
        _points(axis, run.figure["points"])
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


def _points(axis: Any, points: list[list[float]]) -> None:
    x, y, label = np.asarray(points, dtype=float).T
    for value, colour in ((0, "#56B4E9"), (1, "#E69F00")):
        chosen = label == value
        axis.plot(
            x[chosen], y[chosen], "o", color=colour, markersize=2.2, markeredgewidth=0.2,
            markeredgecolor="black",
        )  # fmt: skip
