"""DiMS: the particle of ε falls, is slowed by friction, and comes to rest on a minimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dims.mechanics.batch import Progress
from dims.mechanics.dynamics import Dynamics, dissipative
from dims.mechanics.integrate import Trajectories, resolve_solver
from dims.model.shapes import RowVectors
from dims.sampling.certificate import certify
from dims.sampling.draws import Draws
from dims.sampling.draws.measure import measure
from dims.sampling.samplers.start import Start, follow, trajectory_fields
from dims.sampling.settle import settle

__all__ = ["Dissipative"]

SETTLING = ("stiff", "full")


@dataclass(frozen=True)
class Dissipative:
    """Friction η₀, gravity κ, time and start of the trajectory; how its end is brought to rest.

    `settle` is "stiff", "full" or None; `certify` asks for Hessian eigenvalues and a verdict.
    Both are off in runs that follow the paper.
    """

    friction: float = 0.1
    gravity: float = 1.0
    max_time: float = 50.0
    precondition: bool = True
    solver: str = "rattle"
    tolerance: float | None = None
    settle: str | None = "stiff"
    certify: bool = True
    compile: bool = False

    def __post_init__(self) -> None:
        _ = self.dynamics  # refuses what cannot be
        resolve_solver(self.solver, self.tolerance)
        if self.settle is not None and self.settle not in SETTLING:
            raise ValueError(
                f"settle: {self.settle!r} is unknown; give one of {', '.join(SETTLING)} or None"
            )

    @property
    def dynamics(self) -> Dynamics:
        return dissipative(self.gravity, self.friction)

    def sample(
        self,
        start: Start,
        noise: RowVectors,
        seed: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> Draws:
        path = follow(self, start, noise, progress)
        return Draws(
            method="dims",
            surface=start.surface,
            map_parameters=start.position,
            seed=seed,
            settings=vars(self),
            **self._deliver(start, path),
            **trajectory_fields(path),
        )

    def _deliver(self, start: Start, path: Trajectories) -> dict[str, Any]:
        """Settle and certify the ends; rows that failed are delivered as they are."""
        thetas = path.end
        displacement = torch.zeros_like(path.arc_length)
        if self.settle is not None:
            settled = settle(start.surface, thetas, method=self.settle)
            thetas, displacement = settled.positions, settled.displacement
        fields = {
            "parameters": thetas,
            "displacement": displacement,
            **measure(start.surface, thetas),
        }
        if self.certify:
            certificates = certify(start.surface, thetas)
            fields["smallest_eigenvalue"] = certificates.smallest_eigenvalue
            fields["verdict"] = [verdict.name for verdict in certificates.verdict]
        return fields
