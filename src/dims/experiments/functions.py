"""Functions that networks compute, and trajectories of networks, as data for figures and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dims.experiments.trajectories import Plane, landscape, records, rounded
from dims.integrate import Path
from dims.loss_surface import LossSurface

__all__ = ["function_fields", "movie", "on_a_plane", "points"]

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
    surface: LossSurface, path: Path, grid: Tensor, method: str, draws: int
) -> dict[str, Any]:
    """The functions of the first draws at every saved time: curves (T, draws, grid)."""
    frames = [surface.predict(thetas[:draws], grid).squeeze(-1) for thetas in path.positions]
    return {
        "method": method,
        "times": rounded(path.times),
        "curves": rounded(torch.stack(frames), 3),
    }


def on_a_plane(
    surface: LossSurface, centre: Tensor, paths: Sequence[tuple[str, Path]], draws: int
) -> dict[str, Any]:
    """The first trajectories of each method on the plane through θ* that shows most of them."""
    kept = torch.cat([path.positions[:, :draws].reshape(-1, len(centre)) for _, path in paths])
    kept = kept[kept.isfinite().all(-1)]
    plane = Plane(centre, kept)
    shown = plane.coordinates(kept)
    low, high = shown.min(0).values, shown.max(0).values
    margin = 0.1 * (high - low)
    (left, bottom), (right, top) = (low - margin).tolist(), (high + margin).tolist()
    entries = []
    for method, path in paths:
        count = min(draws, len(path.status))
        labels = [f"{method} {row}" for row in range(count)]
        entries += records(path, method.lower(), labels, plane.coordinates)
    return {
        "trajectories": entries,
        "landscape": landscape(surface, (left, right), (bottom, top), 41, plane),
        "plane_share": plane.share,
    }
