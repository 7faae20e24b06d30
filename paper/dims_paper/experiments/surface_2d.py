"""`surface-2d`: four dynamics from two start velocities, along a valley and across it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.trajectories import landscape, records, save_times
from dims.mechanics.dynamics import damped, dissipative, geodesic, gravitational
from dims.mechanics.integrate import integrate
from dims.surface.function import Surface
from dims_paper.experiments.runs import once

__all__ = ["Surface2dSettings", "quick", "run_surface_2d", "valley"]


@dataclass(frozen=True)
class Surface2dSettings:
    """The paper shows the picture without its numbers: all ours."""

    start: tuple[float, float] = (-3.14159, 0.0)  # on the minima, which descend here
    along: tuple[float, float] = (1.4, -1.4)  # the white arrow
    across: tuple[float, float] = (1.4, 1.4)  # the black arrow
    gravity: float = 1.0
    friction: float = 0.5  # η₀ of both frictions
    max_time: float = 30.0
    saves: int = 400
    x: tuple[float, float] = (-4.5, 6.5)
    y: tuple[float, float] = (-2.6, 2.6)


def quick(settings: Surface2dSettings) -> Surface2dSettings:
    """A shorter time and fewer points."""
    return replace(settings, max_time=4.0, saves=100)


def valley(theta: Tensor) -> Tensor:
    """L(θ) = (θ₂ − sin θ₁)²: its minima are the curve of the sine."""
    return (theta[1] - theta[0].sin()).square()


def run_surface_2d(
    settings: Surface2dSettings, out: Path, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """All eight trajectories, from the folder if they are there."""
    return once(out / "surface_2d.json", lambda: run_one(settings, report))


def run_one(
    settings: Surface2dSettings, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Geodesic, gravity, constant friction and friction ∝ speed, from the same two starts."""
    say = report or (lambda _: None)
    start = torch.tensor(settings.start, dtype=torch.float64)
    velocities = torch.tensor([settings.along, settings.across], dtype=torch.float64)
    trajectories = []
    for method, label, dynamics in (
        ("rla", "geodesic", geodesic()),
        ("gravity", "gravity", gravitational(settings.gravity)),
        ("damped", "constant friction", damped(settings.gravity, settings.friction)),
        ("dims", "friction ∝ speed (DiMS)", dissipative(settings.gravity, settings.friction)),
    ):
        say(label)
        path = integrate(
            Surface(valley),
            start,
            velocities,
            dynamics=dynamics,
            max_time=settings.max_time,
            save_at=save_times(settings.max_time, settings.saves),
        )
        pair = records(path, method, [label, label])
        for entry, velocity in zip(pair, ("along", "across"), strict=True):
            trajectories.append({**entry, "start_velocity": velocity})
    return {
        "experiment": "surface-2d",
        "settings": asdict(settings),
        "trajectories": trajectories,
        "landscape": landscape(Surface(valley), settings.x, settings.y),
    }
