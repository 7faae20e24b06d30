"""Functions that networks compute, and trajectories of networks, as data for figures and pages."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.trajectories import rounded
from dims.mechanics.integrate import Trajectories
from dims.surface.loss import LossSurface

__all__ = ["function_fields", "movie", "points"]

CURVES = 30  # kept of each method; mean and spread are over all draws


def points(inputs: Tensor, targets: Tensor) -> list[list[float]]:
    """Pairs (x, y) of one-dimensional data."""
    return list(rounded(torch.stack([inputs.flatten(), targets.flatten()], dim=-1)))


def function_fields(outputs: Tensor) -> dict[str, Any]:
    """Some curves, and the mean and standard deviation of all; outputs are (S, grid)."""
    spread = outputs.std(0) if len(outputs) > 1 else torch.zeros_like(outputs[0])
    return {
        "curves": rounded(outputs[:CURVES], 4),
        "mean": rounded(outputs.mean(0), 4),
        "std": rounded(spread, 4),
    }


def movie(
    surface: LossSurface, path: Trajectories, grid: Tensor, method: str, draws: int
) -> dict[str, Any]:
    """The functions of the first draws at every saved time: curves (T, draws, grid)."""
    frames = [surface.predict(thetas[:draws], grid).squeeze(-1) for thetas in path.positions]
    return {
        "method": method,
        "times": rounded(path.times),
        "curves": rounded(torch.stack(frames), 3),
    }
