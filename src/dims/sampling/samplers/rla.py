"""The Riemannian Laplace approximation: the geodesic of ε on the graph of the loss, at t = 1.

Reference: F. Bergamin, P. Moreno-Muñoz, S. Hauberg and G. Arvanitidis, "Riemannian Laplace
approximations for Bayesian neural networks", NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dims.mechanics.dynamics import Dynamics, geodesic
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.solvers.base import Solver
from dims.model.shapes import RowVectors
from dims.sampling.samplers.base import Report, Start
from dims.sampling.samplers.trajectory import TrajectorySampler

__all__ = ["RLA"]


@dataclass(frozen=True)
class RLA(TrajectorySampler):
    """Riemannian Laplace approximation: follow the geodesic of ε, `method="rla"`.

        θ'' = −(vᵀHv)·g/(1 + ‖g‖²),     θ(0) = θ*,  v(0) = G^(−½)·ε

    Args:
        max_time: The time at which the geodesic ends.
        precondition: Start with v = G^(−½)·ε, whose energy does not depend on the slope at θ*;
            False starts with v = ε.
        solver: "rattle", "dopri5", or a solver object such as `dims.Rattle(...)`.
        tolerance: Tolerance of a solver given by name; None takes its default.
        save_at: Times at which the positions are kept, for `Draws.at`.
        compile: Compile the step with torch.compile; it pays on long runs.
        metric: "euclidean", or "moving": the stiff directions of the loss are softened where each
            particle is, which takes several times fewer gradients. A `dims.MovingMetric(...)` has
            its settings.

    Raises:
        ValueError: A number is out of its range, or the solver's name is unknown.
        TypeError: The solver is neither a name nor a solver object.

    Example:
        >>> draws = posterior.sample(30, dims.RLA(solver="dopri5"))
    """

    name: ClassVar[str] = "rla"

    max_time: float = 1.0
    precondition: bool = True
    solver: str | Solver = "rattle"
    tolerance: float | None = None
    save_at: Sequence[float] = ()
    compile: bool = False
    metric: str | MovingMetric = "euclidean"

    @property
    def dynamics(self) -> Dynamics:
        """No force: a geodesic."""
        return geodesic()

    def draw(
        self, start: Start, perturbations: RowVectors, progress: Report | None = None
    ) -> dict[str, Any]:
        """Follow the geodesics to their end; see `Sampler.draw`."""
        thetas, fields = self.travel(start, perturbations, progress)
        return {"parameters": thetas, **start.measure(thetas), **fields}
