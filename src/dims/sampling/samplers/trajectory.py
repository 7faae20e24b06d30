"""What samplers by trajectories share: forces, how they are followed, and what is kept of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from numbers import Real
from typing import Any

from torch import Tensor

from dims.mechanics.checks import check_max_time
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.integrate import Trajectories, integrate, resolve_metric, resolve_solver
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.solvers.base import FINEST, Solver
from dims.model.shapes import RowVectors, check_flag
from dims.sampling.samplers.base import Report, Sampler, Start

__all__ = ["TrajectorySampler"]

# Fields of `Trajectories` that are fields of `Draws` too.
WHOLE_TRAJECTORY = (
    "status",
    "energy_violation",
    "energy_balance",
    "arc_length",
    "metric_length",
    "evaluations",
    "gradient_equivalents",
)
FINER = 0.1  # × tolerance, for draws that failed


class TrajectorySampler(Sampler):
    """A sampler that follows the trajectory of each ε; a subclass has these fields and `dynamics`.

    Times of `save_at` are landed on exactly, which changes the steps: the end of a trajectory
    agrees with that of a run without them to the solver's accuracy.
    """

    max_time: float
    precondition: bool
    solver: str | Solver
    tolerance: float | None
    save_at: Sequence[float]
    compile: bool
    metric: str | MovingMetric = "euclidean"  # of subclasses without such a field

    def __post_init__(self) -> None:
        check_max_time(self.max_time)
        check_flag("precondition", self.precondition)
        check_flag("compile", self.compile)
        resolve_metric(self.metric, resolve_solver(self.solver, self.tolerance, self.metric))
        object.__setattr__(self, "save_at", _checked_times(self.save_at, self.max_time))

    @property
    @abstractmethod
    def dynamics(self) -> Dynamics:
        """The forces on the particle."""

    @classmethod
    def current_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The first versions had the euclidean metric alone, and did not write it."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        former = {"metric": "euclidean"} if "metric" in known else {}
        return super().current_settings({**former, **settings})

    def finer(self) -> TrajectorySampler:
        """With a tenth of the tolerance, or the finest; a solver without one stays as it is."""
        solver: Any = resolve_solver(self.solver, self.tolerance, self.metric)
        if "tolerance" not in getattr(solver, "__dataclass_fields__", ()):
            return self
        tolerance = min(solver.tolerance, max(FINER * solver.tolerance, FINEST))
        if isinstance(self.solver, str):
            return replace(self, tolerance=tolerance)  # type: ignore[type-var]
        return replace(self, solver=replace(solver, tolerance=tolerance))  # type: ignore[type-var]

    def follow(
        self,
        start: Start,
        perturbations: RowVectors,
        progress: Report | None = None,
        save_at: Sequence[float] | Tensor | None = None,
    ) -> Trajectories:
        """The trajectories of ε under the sampler's forces, at the given times or at their end."""
        metric = resolve_metric(
            self.metric, resolve_solver(self.solver, self.tolerance, self.metric)
        )
        velocities = start.velocities(perturbations, self.precondition)
        if metric is not None:
            metric = replace(metric, seed=start.seed)
            if self.precondition:
                velocities = metric.start_velocity(start.surface, perturbations, start.position)
        return integrate(
            start.surface,
            start.position,
            velocities,
            dynamics=self.dynamics,
            solver=self.solver,
            tolerance=self.tolerance,
            max_time=self.max_time,
            save_at=save_at,
            compile=self.compile,
            metric="euclidean" if metric is None else metric,
            numbers=start.numbers,
            progress=progress,
            checkpoint=start.checkpoint,
        )

    def travel(
        self, start: Start, perturbations: RowVectors, progress: Report | None
    ) -> tuple[RowVectors, dict[str, Any]]:
        """The ends of the trajectories, and the fields of `Draws` that tell of them."""
        times = (*(t for t in self.save_at if t < self.max_time), self.max_time)
        path = self.follow(start, perturbations, progress, times if self.save_at else None)
        fields = {name: getattr(path, name) for name in WHOLE_TRAJECTORY}
        fields["kinetic_energy"] = path.kinetic_energy[-1]
        if self.save_at:
            kept = len(self.save_at)
            fields |= {
                "times": path.times[:kept],
                "saved": path.positions[:kept].transpose(0, 1),
                "saved_loss": path.loss[:kept].T,
                "saved_gradient_norm": path.gradient_norm[:kept].T,
                "saved_kinetic_energy": path.kinetic_energy[:kept].T,
            }
        return path.end, fields


def _checked_times(save_at: Sequence[float], max_time: float) -> tuple[float, ...]:
    if isinstance(save_at, (str, Real)):
        raise TypeError(f"save_at: expected a list of numbers, got {save_at!r}")
    times = tuple(float(time) for time in save_at)
    increasing = all(a < b for a, b in zip((-math.inf, *times), times, strict=False))
    if times and not (increasing and times[0] >= 0 and times[-1] <= max_time):
        raise ValueError(
            f"save_at: expected increasing times from 0 to max_time = {max_time}, got {times}"
        )
    return times
