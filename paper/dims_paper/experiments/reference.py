"""Rows by the reference solver, and the same draws by ours beside them.

The reference solver is dopri5 at the published tolerances.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dims
from dims.model.shapes import RowFlags, RowScalars
from dims_paper.cache import load_tensors, save_tensors
from dims_paper.experiments.problem import Problem
from dims_paper.schema import Row
from dims_paper.scoring import draws_of

OUT_OF_TIME = "OUT_OF_TIME"  # the status of a draw that a limit cut off


@dataclass(frozen=True)
class Motion:
    """What moves the particles of a row, and for how long."""

    method: str
    dynamics: dims.Dynamics
    max_time: float
    eta0: float | None


def reference_row(
    motion: Motion,
    problem: Problem,
    draws: int,
    tolerance: float,
    watch: Stopwatch,
    posterior: dims.Posterior,
) -> Row:
    """The first draws of a row by the reference solver, and the same draws by ours.

    Within the limit as many as come to their end; the others say how far they came.
    """
    velocities = posterior.perturbations(draws, problem.seed)

    def follow(velocities: Tensor, **how: Any) -> dims.Trajectories:
        return dims.integrate(
            posterior.surface,
            posterior.map_parameters,
            velocities,
            dynamics=motion.dynamics,
            max_time=motion.max_time,
            **how,
        )

    path = follow(velocities, solver="dopri5", tolerance=tolerance, stop=watch, checkpoint=watch)
    seconds = watch.seconds
    done = torch.tensor([status is not dims.Status.AT_REST for status in path.status])
    finished = int(done.sum())
    # Paired: the draws that the reference solver finished, or all where it finished none.
    compared = done if done.any() else ~done
    began = time.perf_counter()
    ours = follow(velocities[compared])
    took = time.perf_counter() - began

    def row(method: str, thetas: Tensor, **fields: Any) -> Row:
        if not done.any():  # nothing to compare: no scores
            return Row(method=method, **fields)
        return problem.evaluation.row(method, draws_of(posterior.surface, thetas), **fields)

    by_rattle = {"draws": int(compared.sum()), "seconds": took, "diagnostics": _diagnostics(ours)}
    note = None
    if finished < draws:
        note = f"not affordable: {finished} of {draws} draws in {seconds:.0f} seconds"
    return row(
        motion.method,
        path.end[done],
        t1=motion.max_time,
        eta0=motion.eta0,
        draws=finished,
        seconds=seconds,
        numbers={"asked": draws, "limit": watch.limit},
        diagnostics=_diagnostics(path),
        note=note,
        rattle=replace(row("rattle", ours.end, **by_rattle), figure={}),
    )


def _diagnostics(path: dims.Trajectories) -> dict[str, Any]:
    return {
        "energy_violation": path.energy_violation.tolist(),
        "evaluations": path.evaluations.tolist(),
        "loss": path.loss[-1].tolist(),
        # At rest is where the stopwatch stopped it.
        "status": [OUT_OF_TIME if s is dims.Status.AT_REST else s.name for s in path.status],
        "reached": path.end_time.tolist(),
        # 1 for ever on a geodesic.
        "kinetic_ratio": (path.kinetic_energy[-1] / path.start_kinetic_energy).tolist(),
    }


class Stopwatch:
    """Stops a batch after so many seconds, and keeps it in a file with the seconds it has had."""

    def __init__(self, path: Path, limit: float, every: float = 30.0) -> None:
        self.path, self.limit, self.every = path, limit, every
        self.before = 0.0
        self.began = self.last = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Spent on the batch so far, in all calls."""
        return self.before + time.perf_counter() - self.began

    def __call__(
        self,
        time: RowScalars,
        loss: RowScalars,
        kinetic_energy: RowScalars,
        gradient_norm: RowScalars,
    ) -> RowFlags:
        return torch.full_like(time, self.seconds > self.limit, dtype=torch.bool)

    def load(self) -> dict[str, Tensor] | None:
        if not self.path.exists():
            return None
        tensors = load_tensors(self.path)
        self.before = float(tensors.pop("seconds"))
        return tensors

    def offer(self, pack: Callable[[], dict[str, Tensor]]) -> None:
        if time.perf_counter() - self.last < self.every:
            return
        seconds = torch.tensor(self.seconds, dtype=torch.float64)
        save_tensors({**pack(), "seconds": seconds}, self.path)
        self.last = time.perf_counter()

    def refuse(self, error: dims.SnapshotError) -> None:
        self.before = 0.0
