"""The figure of `dims demo`: function-space samples of RLA and DiMS, and the loss along the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.style import COLOURS, LABELS, figure_style
from dims_paper.demo.run import DemoResult

__all__ = ["demo_figure"]


def demo_figure(result: DemoResult, path: Path) -> Path:
    """Write the three panels side by side."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with figure_style() as plt:
        figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), constrained_layout=True)
        for axis, method, curves in (
            (axes[0], "rla", result.rla_curves),
            (axes[1], "dims", result.dims_curves),
        ):
            _functions(axis, result, method, curves)
        axes[1].sharey(axes[0])
        _losses(axes[2], result)
        figure.savefig(path)
        plt.close(figure)
    return path


def _functions(axis: Any, result: DemoResult, method: str, curves: Tensor) -> None:
    axis.plot(result.grid, curves.T, color=COLOURS[method], alpha=0.35, linewidth=0.9)
    axis.plot(result.grid, curves.mean(0), color=COLOURS[method], linewidth=2, label="mean")
    axis.plot(result.inputs, result.targets, "o", color="black", markersize=5, label="data")
    axis.set_ylim(-3, 3)
    axis.set_title(f"{LABELS[method]}: {len(curves)} functions")
    axis.set_xlabel("input x")
    axis.set_ylabel("output f(x)")
    axis.legend(loc="upper center", ncols=2)


def _losses(axis: Any, result: DemoResult) -> None:
    for method, path in (("rla", result.rla), ("dims", result.dims)):
        part = path.times / path.times[-1]
        middle = path.loss.median(1).values
        low, high = path.loss.quantile(torch.tensor([0.05, 0.95]).double(), dim=1)
        label = f"{LABELS[method]}, to t = {float(path.times[-1]):g}"
        axis.plot(part, middle, color=COLOURS[method], label=label)
        axis.fill_between(part, low, high, color=COLOURS[method], alpha=0.2, linewidth=0)
    axis.set_yscale("log")
    axis.set_title("loss along the paths (median, 90 %)")
    axis.set_xlabel("part of the time")
    axis.set_ylabel("training loss L")
    axis.legend()
