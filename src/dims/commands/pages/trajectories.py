"""Trajectories, and the loss on a plane below them, as data for figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dims.mechanics.integrate import Trajectories
from dims.surface.base import BaseSurface

__all__ = ["Plane", "Record", "landscape", "on_a_plane", "records", "rounded", "save_times"]

Record = dict[str, Any]

DIGITS = 5  # significant digits: more than a figure shows, and the files stay small


def rounded(values: Tensor, digits: int = DIGITS) -> Any:
    """Nested lists of numbers with few digits; numbers that are not finite become None."""
    return _round(values.detach().cpu().tolist(), digits)


def _round(value: Any, digits: int) -> Any:
    """`rounded` for one level of nesting."""
    if isinstance(value, list):
        return [_round(inner, digits) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value


def save_times(end: float, count: int, *, dense_early: bool = False) -> Tensor:
    """`count` + 1 times from 0 to `end`; with `dense_early` quadratically spaced."""
    part = torch.linspace(0, 1, count + 1, dtype=torch.float64)
    return end * (part.square() if dense_early else part)


def records(
    path: Trajectories,
    method: str,
    labels: Sequence[str],
    place: Callable[[Tensor], Tensor] = lambda positions: positions,
) -> list[Record]:
    """One entry per trajectory.

    Args:
        path: Trajectories with saved times.
        method: The method that all of them belong to.
        labels: One name per trajectory.
        place: Maps positions (T, K) to the coordinates that the figure shows.

    Returns:
        One dictionary per trajectory, ready for JSON.
    """
    return [
        {
            "method": method,
            "label": label,
            "times": rounded(path.times),
            "positions": rounded(place(path.positions[:, row])),
            "loss": rounded(path.loss[:, row]),
            "kinetic_energy": rounded(path.kinetic_energy[:, row]),
            "energy": rounded(path.energy[:, row]),
            "energy_violation": float(path.energy_violation[row]),
            "arc_length": float(path.arc_length[row]),
            "status": path.status[row].name,
        }
        for row, label in enumerate(labels)
    ]


class Plane:
    """The plane through a centre along which given points vary most."""

    def __init__(self, centre: Tensor, points: Tensor) -> None:
        self.centre = centre
        spread = (points - centre).reshape(-1, len(centre))
        self.axes = torch.linalg.svd(spread, full_matrices=False).Vh[:2]
        total = spread.square().sum()
        self.share = float((spread @ self.axes.T).square().sum() / total)

    def coordinates(self, points: Tensor) -> Tensor:
        """Coordinates on the plane: (…, K) → (…, 2)."""
        return (points - self.centre) @ self.axes.T

    def points(self, coordinates: Tensor) -> Tensor:
        """Points of the plane: (…, 2) → (…, K)."""
        return self.centre + coordinates @ self.axes


def landscape(
    surface: BaseSurface,
    x: tuple[float, float],
    y: tuple[float, float],
    side: int = 81,
    plane: Plane | None = None,
) -> dict[str, Any]:
    """Evaluate the loss on a square grid.

    Args:
        surface: A surface in two dimensions, or in more with a `plane`.
        x: The range of the first coordinate.
        y: The range of the second coordinate.
        side: The number of grid points along each axis.
        plane: The plane that the coordinates refer to.

    Returns:
        Both ranges, and the loss as rows from low to high y.
    """
    across = torch.linspace(*x, side, dtype=torch.float64)
    up = torch.linspace(*y, side, dtype=torch.float64)
    grid = torch.cartesian_prod(up, across).flip(-1)
    if plane is None:
        loss = surface.value(grid)
    else:  # one line at a time, because each point is a whole network
        lines = grid.to(plane.centre).split(side)
        loss = torch.cat([surface.value(plane.points(line)) for line in lines])
    return {"x": list(x), "y": list(y), "loss": rounded(loss.reshape(side, side), 4)}


def on_a_plane(
    surface: BaseSurface, centre: Tensor, paths: Sequence[tuple[str, Trajectories]], draws: int
) -> dict[str, Any]:
    """Project the first trajectories of each method on the plane that shows most of them.

    Args:
        surface: The surface they move on.
        centre: θ*, which lies on the plane.
        paths: Pairs of a method and its trajectories.
        draws: At most this many trajectories per method.

    Returns:
        `trajectories`, the `landscape` of the loss on the plane, and `plane_share`, the share of
        their variation that the plane holds.
    """
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
