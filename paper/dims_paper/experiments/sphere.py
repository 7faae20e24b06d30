"""`sphere`: figure 1. A geodesic leaves the minima it starts from; DiMS comes to rest on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.trajectories import records, save_times
from dims.mechanics.dynamics import dissipative, geodesic
from dims.mechanics.integrate import integrate
from dims.surface.function import Surface
from dims_paper.experiments.runs import once

__all__ = ["SphereSettings", "quick", "run_sphere", "sphere"]


@dataclass(frozen=True)
class SphereSettings:
    """The paper gives the loss alone, and as printed (not squared) it has no minima: all ours."""

    outward: float = 0.5  # the part of the start velocity that leaves the sphere
    along: float = 1.0  # and the part along it, in a direction drawn from the seed
    gravity: float = 1.0
    friction: float = 0.5
    max_time: float = 25.0
    saves: int = 400
    seed: int = 0


def quick(settings: SphereSettings) -> SphereSettings:
    """A shorter time and fewer points."""
    return replace(settings, max_time=10.0, saves=200)


def sphere(theta: Tensor) -> Tensor:
    """L(θ) = (‖θ‖² − 1)²: its minima are the unit sphere."""
    return (theta.square().sum() - 1).square()


def run_sphere(
    settings: SphereSettings, out: Path, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Both trajectories, from the folder if they are there."""
    return once(out / f"sphere_{settings.seed}.json", lambda: run_one(settings, report))


def run_one(
    settings: SphereSettings, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """From one point of the sphere, one velocity: a geodesic and a DiMS trajectory."""
    say = report or (lambda _: None)
    generator = torch.Generator().manual_seed(settings.seed)
    # A view from (1, 1, 1) sees the start.
    start = torch.nn.functional.normalize(torch.tensor([1.0, 0.2, 0.6], dtype=torch.float64), dim=0)
    direction = torch.randn(3, generator=generator, dtype=torch.float64)
    tangent = torch.nn.functional.normalize(direction - (direction @ start) * start, dim=0)
    velocity = settings.outward * start + settings.along * tangent
    trajectories = []
    for method, label, dynamics in (
        ("rla", "geodesic", geodesic()),
        ("dims", "DiMS", dissipative(settings.gravity, settings.friction)),
    ):
        say(label)
        path = integrate(
            Surface(sphere),
            start,
            velocity,
            dynamics=dynamics,
            max_time=settings.max_time,
            save_at=save_times(settings.max_time, settings.saves),
        )
        trajectories += records(path, method, [label])
    return {
        "experiment": "sphere",
        "seed": settings.seed,
        "settings": asdict(settings),
        "trajectories": trajectories,
    }
