"""What every sampler starts from, and what it must be able to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from dims.mechanics.batch import Progress
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.integrate import Trajectories, integrate
from dims.mechanics.snapshot import Checkpoint
from dims.model.shapes import RowVectors, Vector
from dims.sampling.draws import Draws
from dims.sampling.perturbations import precondition
from dims.surface.loss import LossSurface

__all__ = ["Moving", "Sampler", "Start", "follow", "trajectory_fields"]


@dataclass(frozen=True)
class Start:
    """A surface, the trained θ* on it, the gradient there, and where to keep what is half done."""

    surface: LossSurface
    position: Vector
    gradient: Vector
    checkpoint: Checkpoint | None = None

    def velocities(self, noise: RowVectors, preconditioned: bool) -> RowVectors:
        """v = G^(−½)·ε, whose energy does not depend on the slope at θ*, or v = ε."""
        return precondition(noise, self.gradient) if preconditioned else noise


@runtime_checkable
class Sampler(Protocol):
    """Settings of one method, a frozen dataclass; `sample` turns ε (S, K) into draws."""

    def sample(
        self,
        start: Start,
        noise: RowVectors,
        seed: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> Draws: ...


@runtime_checkable
class Moving(Protocol):
    """What samplers by trajectories share: forces, and how they are followed."""

    @property
    def precondition(self) -> bool: ...
    @property
    def solver(self) -> str: ...
    @property
    def tolerance(self) -> float | None: ...
    @property
    def max_time(self) -> float: ...
    @property
    def compile(self) -> bool: ...
    @property
    def dynamics(self) -> Dynamics: ...


def follow(
    settings: Moving,
    start: Start,
    noise: RowVectors,
    progress: Callable[[Progress], None] | None = None,
    save_at: Tensor | None = None,
) -> Trajectories:
    """The trajectories of ε under the sampler's forces."""
    return integrate(
        start.surface,
        start.position,
        start.velocities(noise, settings.precondition),
        dynamics=settings.dynamics,
        solver=settings.solver,
        tolerance=settings.tolerance,
        max_time=settings.max_time,
        save_at=save_at,
        compile=settings.compile,
        progress=progress,
        # Compiled for another number of rows first, the same step would round differently.
        checkpoint=None if settings.compile else start.checkpoint,
    )


def trajectory_fields(path: Trajectories) -> dict[str, Any]:
    """The part of a draw that tells of its trajectory."""
    return {
        "status": path.status,
        "kinetic_energy": path.kinetic_energy[-1],
        "energy_violation": path.energy_violation,
        "energy_balance": path.energy_balance,
        "arc_length": path.arc_length,
        "evaluations": path.evaluations,
    }
