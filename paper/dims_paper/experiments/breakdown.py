"""`breakdown`: DiMS draws come to rest in distinct sets of minima; a geodesic goes on for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.trajectories import landscape, records, rounded, save_times
from dims.mechanics.dynamics import dissipative, geodesic
from dims.mechanics.integrate import integrate
from dims.surface.function import Surface
from dims_paper.experiments.runs import once

__all__ = ["BreakdownSettings", "quick", "rings", "run_breakdown"]


@dataclass(frozen=True)
class BreakdownSettings:
    """The paper shows the picture without its numbers: all ours."""

    start: tuple[float, float] = (2.0, 0.0)  # on the middle one of three rings
    speed: float = 3.0  # scale of the normal start velocities
    draws: int = 8
    gravity: float = 1.0
    friction: float = 0.3
    max_time: float = 40.0
    geodesic_time: float = 4.0  # a geodesic needs a time to be stopped at
    saves: int = 400
    side: float = 4.4
    seed: int = 0


def quick(settings: BreakdownSettings) -> BreakdownSettings:
    """Fewer draws and a shorter time."""
    return replace(settings, draws=3, max_time=10.0, saves=200)


def rings(theta: Tensor) -> Tensor:
    """L(θ) = 1 − cos 2π‖θ‖: minima are the rings of radius 1, 2, 3, … and the centre."""
    return 1 - torch.cos(2 * torch.pi * (theta.square().sum() + 1e-12).sqrt())


def run_breakdown(
    settings: BreakdownSettings, out: Path, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """All trajectories, from the folder if they are there."""
    return once(out / f"breakdown_{settings.seed}.json", lambda: run_one(settings, report))


def run_one(
    settings: BreakdownSettings, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Normal start velocities; the first of them also as a geodesic."""
    say = report or (lambda _: None)
    surface = Surface(rings)
    generator = torch.Generator().manual_seed(settings.seed)
    start = torch.tensor(settings.start, dtype=torch.float64)
    noise = torch.randn(settings.draws, 2, generator=generator, dtype=torch.float64)
    velocities = settings.speed * noise

    say("DiMS")
    dynamics = dissipative(settings.gravity, settings.friction)
    drawn = integrate(
        surface,
        start,
        velocities,
        dynamics=dynamics,
        max_time=settings.max_time,
        save_at=save_times(settings.max_time, settings.saves, dense_early=True),
    )
    say("geodesic")
    free = integrate(
        surface,
        start,
        velocities[:1],
        dynamics=geodesic(),
        max_time=settings.geodesic_time,
        save_at=save_times(settings.geodesic_time, settings.saves),
    )
    assert dynamics.friction is not None
    trajectories = records(drawn, "dims", [f"DiMS {i}" for i in range(settings.draws)])
    for row, entry in enumerate(trajectories):
        power = dynamics.friction.power(drawn.kinetic_energy[:, row])
        entry["dissipation"] = rounded(power)
        entry["end_radius"] = round(float(drawn.end[row].norm()), 3)
    side = settings.side
    return {
        "experiment": "breakdown",
        "seed": settings.seed,
        "settings": asdict(settings),
        "trajectories": [*records(free, "rla", ["geodesic"]), *trajectories],
        "landscape": landscape(surface, (-side, side), (-side, side), 121),
    }
