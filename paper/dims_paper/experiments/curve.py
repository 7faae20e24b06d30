"""`curve`: a curve on the loss manifold and the path in parameter space that it lies above."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.trajectories import landscape, records, save_times
from dims.mechanics.dynamics import dissipative
from dims.mechanics.integrate import integrate
from dims.surface.function import Surface
from dims_paper.experiments.runs import once

__all__ = ["CurveSettings", "hills", "quick", "run_curve"]


@dataclass(frozen=True)
class CurveSettings:
    """A schematic; the paper gives no numbers: all ours."""

    start: tuple[float, float] = (-1.6, 0.1)
    velocity: tuple[float, float] = (1.5, -1.2)
    gravity: float = 1.0
    friction: float = 0.2
    max_time: float = 2.6
    saves: int = 120
    side: float = 2.0


def quick(settings: CurveSettings) -> CurveSettings:
    """A shorter time and fewer points."""
    return replace(settings, max_time=1.0, saves=20)


def hills(theta: Tensor) -> Tensor:
    """A smooth landscape with a valley and a hill."""
    bowl = 0.25 * (theta[0].square() + theta[1].square())
    hill = 1.2 * torch.exp(-((theta[0] - 0.3).square() + (theta[1] - 0.4).square()) / 0.5)
    return bowl + hill


def run_curve(
    settings: CurveSettings, out: Path, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The curve, from the folder if it is there."""
    return once(out / "curve.json", lambda: run_one(settings, report))


def run_one(settings: CurveSettings, report: Callable[[str], None] | None = None) -> dict[str, Any]:
    """One DiMS trajectory α(t) with its lift γ(t) = (α(t), L(α(t)))."""
    surface = Surface(hills)
    start = torch.tensor(settings.start, dtype=torch.float64)
    velocity = torch.tensor(settings.velocity, dtype=torch.float64)
    path = integrate(
        surface,
        start,
        velocity,
        dynamics=dissipative(settings.gravity, settings.friction),
        max_time=settings.max_time,
        save_at=save_times(settings.max_time, settings.saves),
    )
    _, gradient = surface.value_and_grad(start[None])
    side = settings.side
    return {
        "experiment": "curve",
        "settings": asdict(settings),
        # v of the manifold is (ṽ, gᵀṽ): the start velocity lifted into the tangent plane.
        "climb": float(gradient[0] @ velocity),
        "trajectories": records(path, "dims", ["DiMS"]),
        "landscape": landscape(surface, (-side, side), (-side, side), 61),
    }
