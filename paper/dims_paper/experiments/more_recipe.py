"""Rows by the paper's solver, and the same draws by ours beside them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.integrate import Trajectories, integrate
from dims.mechanics.status import Status
from dims.sampling.posterior import Posterior
from dims_paper.experiments.more_settings import MoreSettings, Problem
from dims_paper.experiments.stopwatch import Stopwatch

__all__ = ["Motion", "recipe_row"]

OUT_OF_TIME = "OUT_OF_TIME"  # the status of a draw that a limit cut off
# What the same draws by `rattle` need not keep once more.
DRAWN = ("curves", "mean", "std", "map", "calibration")


@dataclass(frozen=True)
class Motion:
    """What moves the particles of a row, and for how long."""

    method: str
    dynamics: Dynamics
    max_time: float
    eta0: float | None


def recipe_row(
    motion: Motion,
    problem: Problem,
    settings: MoreSettings,
    posterior: Posterior,
    watch: Stopwatch,
) -> dict[str, Any]:
    """The first draws of a row by the paper's solver, and the same draws by ours.

    Within the limit as many as come to their end; the others say how far they came.
    """
    velocities = posterior.perturbations(settings.recipe_draws, problem.seed)

    def follow(velocities: Tensor, **how: Any) -> Trajectories:
        return integrate(
            posterior.surface,
            posterior.map_parameters,
            velocities,
            dynamics=motion.dynamics,
            max_time=motion.max_time,
            **how,
        )

    path = follow(
        velocities,
        solver="dopri5",
        tolerance=settings.recipe_tolerance,
        stop=watch,
        checkpoint=watch,
    )
    seconds = watch.seconds
    done = torch.tensor([status is not Status.AT_REST for status in path.status])
    row = {
        "method": motion.method,
        "t1": motion.max_time,
        "eta0": motion.eta0,
        "asked": settings.recipe_draws,
        "draws": int(done.sum()),
        "limit": settings.recipe_limit,
        **_how_it_went(path, seconds),
    }
    row["status"] = [
        status.name if ended else OUT_OF_TIME
        for status, ended in zip(path.status, done.tolist(), strict=True)
    ]
    if not done.all():
        row["note"] = (
            f"not affordable: {row['draws']} of {row['asked']} draws in {seconds:.0f} seconds"
        )
    # Paired: the draws that the recipe finished, or all where it finished none.
    compared = done if done.any() else ~done
    began = time.perf_counter()
    ours = follow(velocities[compared])
    row["rattle"] = {
        "draws": int(compared.sum()),
        **_how_it_went(ours, time.perf_counter() - began),
    }
    if not done.any():
        return row
    scores = problem.scores(posterior, ours.end)
    row["rattle"] |= {key: value for key, value in scores.items() if key not in DRAWN}
    return row | problem.scores(posterior, path.end[done])


def _how_it_went(path: Trajectories, seconds: float) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "energy_violation": path.energy_violation.tolist(),
        "evaluations": path.evaluations.tolist(),
        "loss": path.loss[-1].tolist(),
        "status": [status.name for status in path.status],
        "reached": path.end_time.tolist(),
        # 1 for ever on a geodesic.
        "kinetic_ratio": (path.kinetic_energy[-1] / path.start_kinetic_energy).tolist(),
    }
