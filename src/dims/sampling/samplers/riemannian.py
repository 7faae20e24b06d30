"""The Riemannian Laplace approximation: the geodesic of ε on the graph of the loss, at t = 1.

Reference: F. Bergamin, P. Moreno-Muñoz, S. Hauberg and G. Arvanitidis, "Riemannian Laplace
approximations for Bayesian neural networks", NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dims.mechanics.batch import Progress
from dims.mechanics.dynamics import Dynamics, geodesic
from dims.mechanics.integrate import resolve_solver
from dims.model.shapes import RowVectors
from dims.sampling.draws import Draws
from dims.sampling.draws.measure import measure
from dims.sampling.samplers.start import Start, follow, trajectory_fields

__all__ = ["Riemannian"]


@dataclass(frozen=True)
class Riemannian:
    """How long, how started, and how integrated."""

    max_time: float = 1.0
    precondition: bool = True
    solver: str = "rattle"
    tolerance: float | None = None
    compile: bool = False

    def __post_init__(self) -> None:
        resolve_solver(self.solver, self.tolerance)

    @property
    def dynamics(self) -> Dynamics:
        return geodesic()

    def sample(
        self,
        start: Start,
        noise: RowVectors,
        seed: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> Draws:
        path = follow(self, start, noise, progress)
        return Draws(
            parameters=path.end,
            method="rla",
            surface=start.surface,
            map_parameters=start.position,
            seed=seed,
            settings=vars(self),
            **measure(start.surface, path.end),
            **trajectory_fields(path),
        )
