"""`sinusoid`: figure 2. Functions through seven points by RLA and DiMS, and their losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dims.commands.pages.trajectories import on_a_plane, rounded
from dims.mechanics.batch import Progress
from dims_paper.demo.run import DemoResult, DemoSettings, run_demo
from dims_paper.experiments.functions import function_fields, movie, points
from dims_paper.experiments.runs import once

__all__ = ["SinusoidSettings", "quick", "run_sinusoid"]

LEVELS = (0.05, 0.5, 0.95)  # quantiles over draws of the loss along the way


@dataclass(frozen=True)
class SinusoidSettings(DemoSettings):
    """N = 7 is the paper's; the network, its noise and prior, η₀ and t₁ are ours."""

    followed: int = 8  # draws whose functions and places are kept along the way


def quick(settings: SinusoidSettings) -> SinusoidSettings:
    """Fewer draws, a shorter time."""
    return replace(settings, draws=8, max_time=4.0, saves=20, followed=4)


def run_sinusoid(
    settings: SinusoidSettings, out: Path, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The run of one seed, from the folder if it is there."""
    return once(out / f"sinusoid_{settings.seed}.json", lambda: run_one(settings, report))


def run_one(
    settings: SinusoidSettings, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The demonstration, with its functions and trajectories kept."""
    say = report or (lambda _: None)

    def progress(name: str, now: Progress) -> None:
        say(f"{name}: {now.done}/{now.rows} draws done, t = {now.mean_time:.2f}")

    say("training")
    found = run_demo(settings, progress)
    paths = [("RLA", found.rla), ("DiMS", found.dims)]
    surface, coarse = found.posterior.surface, found.grid[::3].unsqueeze(-1)
    return {
        "experiment": "sinusoid",
        "seed": settings.seed,
        "draws": settings.draws,
        "settings": asdict(settings),
        "noise_std": settings.noise_std,
        "grid": rounded(found.grid),
        "points": {"train": points(found.inputs, found.targets)},
        "rows": [
            {"method": "RLA", **function_fields(found.rla_curves)},
            {"method": "DiMS", **function_fields(found.dims_curves)},
        ],
        "losses": _losses(found),
        "movie_grid": rounded(coarse.squeeze(-1)),
        "movies": [movie(surface, path, coarse, name, settings.followed) for name, path in paths],
        **on_a_plane(surface, found.posterior.map_parameters, paths, settings.followed),
    }


def _losses(found: DemoResult) -> list[dict[str, Any]]:
    levels = torch.tensor(LEVELS, dtype=torch.float64)
    return [
        {
            "method": name,
            "times": rounded(path.times),
            "quantiles": rounded(path.loss.quantile(levels, dim=1)),
        }
        for name, path in (("RLA", found.rla), ("DiMS", found.dims))
    ]
