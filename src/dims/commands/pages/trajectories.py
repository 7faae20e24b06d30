"""Trajectories and the ground under them as data that a figure can be drawn from."""

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

DIGITS = 5  # significant ones: more than a figure shows, and files stay small


def rounded(values: Tensor, digits: int = DIGITS) -> Any:
    """Nested lists of numbers with few digits; what is not finite becomes None."""
    return _round(values.detach().cpu().tolist(), digits)


def _round(value: Any, digits: int) -> Any:
    if isinstance(value, list):
        return [_round(inner, digits) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value


def save_times(end: float, count: int, *, dense_early: bool = False) -> Tensor:
    """0 … end in `count` steps; `dense_early`: growing ones, for motion that slows down."""
    part = torch.linspace(0, 1, count + 1, dtype=torch.float64)
    return end * (part.square() if dense_early else part)


def records(
    path: Trajectories,
    method: str,
    labels: Sequence[str],
    place: Callable[[Tensor], Tensor] = lambda positions: positions,
) -> list[Record]:
    """One entry for each row; `place` turns positions (T, K) into the few numbers to be shown."""
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
    """Two axes through a point of parameter space: those along which given points vary most."""

    def __init__(self, centre: Tensor, points: Tensor) -> None:
        self.centre = centre
        spread = (points - centre).reshape(-1, len(centre))
        self.axes = torch.linalg.svd(spread, full_matrices=False).Vh[:2]
        total = spread.square().sum()
        self.share = float((spread @ self.axes.T).square().sum() / total)

    def coordinates(self, points: Tensor) -> Tensor:
        """(…, K) → (…, 2)."""
        return (points - self.centre) @ self.axes.T

    def points(self, coordinates: Tensor) -> Tensor:
        """(…, 2) → (…, K), on the plane."""
        return self.centre + coordinates @ self.axes


def landscape(
    surface: BaseSurface,
    x: tuple[float, float],
    y: tuple[float, float],
    side: int = 81,
    plane: Plane | None = None,
) -> dict[str, Any]:
    """The loss on a square grid: of a surface in two dimensions, or of a plane in many."""
    across = torch.linspace(*x, side, dtype=torch.float64)
    up = torch.linspace(*y, side, dtype=torch.float64)
    grid = torch.cartesian_prod(up, across).flip(-1)
    if plane is None:
        loss = surface.value(grid)
    else:  # one line at a time: each point is a whole network
        lines = grid.to(plane.centre).split(side)
        loss = torch.cat([surface.value(plane.points(line)) for line in lines])
    return {"x": list(x), "y": list(y), "loss": rounded(loss.reshape(side, side), 4)}


def on_a_plane(
    surface: BaseSurface, centre: Tensor, paths: Sequence[tuple[str, Trajectories]], draws: int
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
