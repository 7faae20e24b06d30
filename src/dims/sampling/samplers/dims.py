"""DiMS: the particle of ε falls, is slowed by friction, and comes to rest on a minimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import torch

from dims.errors import warn_renamed
from dims.mechanics.dynamics import Dynamics, Friction, SpeedFriction
from dims.mechanics.integrate import resolve_solver
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.solvers.base import Solver
from dims.model.shapes import RowVectors, check_flag, check_positive
from dims.sampling.certificate import certify
from dims.sampling.samplers.base import Report, Start
from dims.sampling.samplers.trajectory import TrajectorySampler
from dims.sampling.settle import REDUCTION, settle

__all__ = ["DiMS"]

SETTLING = ("stiff", "full", "none")
# In a moving metric stiff directions hold as much energy as others do. Their gradient is most of it
# at the end of a trajectory, and no measure of when the others have come to rest.
MOVING_REDUCTION = 1e4


@dataclass(frozen=True)
class DiMS(TrajectorySampler):
    """Dissipative Riemannian mechanics: a particle falls to a minimum, `method="dims"`.

        θ'' = −(vᵀHv + κ)·g/(1 + ‖g‖²) − η·v,     θ(0) = θ*,  v(0) = G^(−½)·√τ·ε

    At the default time a particle has fallen and still moves along flat directions, where draws
    differ. For draws that are minima take a longer time, and bring the end of each trajectory to
    rest by `dims.settle` and judge it by `dims.certify`:
    ``DiMS(max_time=50.0, settle="stiff", certify=True)``.

    Args:
        friction: η₀ of a friction that grows with the speed, η = η₀·√T, or a friction object such
            as `dims.ConstantFriction(0.1)` or one of your own.
        gravity: κ, how strongly the particle is pulled down.
        max_time: The time at which a trajectory ends.
        precondition: Start with v = G^(−½)·√τ·ε, whose energy does not depend on the slope at θ*;
            False starts with v = √τ·ε, as the published runs.
        solver: "rattle", "dopri5", or a solver object such as `dims.Rattle(...)`.
        tolerance: Tolerance of a solver given by name; None takes its default.
        save_at: Times at which the positions are kept, for `Draws.at`: as the particle passes
            them, not settled.
        settle: How the end is brought to rest: "none" (not at all, as the published runs), "stiff"
            (in the stiff directions) or "full" (at the minimum below).
        certify: Compute the smallest Hessian eigenvalue and a verdict for each draw.
        compile: Compile the step with torch.compile; it pays on long runs.
        metric: "moving": the stiff directions of the loss are softened where each particle is,
            which takes several times fewer gradients; a `dims.MovingMetric(...)` has its settings.
            "euclidean" is the paper's. None means "moving", and "euclidean" for a solver that
            works in no other.
        temperature: τ; particles start with τ times the kinetic energy that the Laplace posterior
            gives, which is about K/(2δ) nats for K parameters of prior precision δ. Take less than
            1 for networks of many thousand parameters, whose loss can take up no such energy.

    Raises:
        ValueError: A number is out of its range, or a name is unknown.
        TypeError: The solver is neither a name nor a solver object.

    Example:
        >>> draws = posterior.sample(30, dims.DiMS(friction=0.5, save_at=(3.0, 10.0)))
        >>> draws.at(3.0).predict(x)
    """

    name: ClassVar[str] = "dims"

    friction: float | Friction = 0.1
    gravity: float = 1.0
    max_time: float = 3.0
    precondition: bool = True
    solver: str | Solver = "rattle"
    tolerance: float | None = None
    save_at: Sequence[float] = ()
    settle: str = "none"
    certify: bool = False
    compile: bool = False
    metric: str | MovingMetric | None = None  # type: ignore[assignment]  # never None once made
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _ = self.dynamics  # checks gravity and friction
        if self.metric is None:
            able = resolve_solver(self.solver, self.tolerance).any_metric
            object.__setattr__(self, "metric", "moving" if able else "euclidean")
        check_flag("certify", self.certify)
        check_positive("temperature", self.temperature)
        super().__post_init__()
        if self.settle is None:
            warn_renamed("settle=None", 'settle="none"', stacklevel=5)
            object.__setattr__(self, "settle", "none")
        if self.settle not in SETTLING:
            raise ValueError(
                f"settle: {self.settle!r} is unknown; give one of {', '.join(SETTLING)}"
            )

    @property
    def dynamics(self) -> Dynamics:
        """Gravity and friction."""
        law = self.friction
        if isinstance(law, Real):
            law = SpeedFriction(float(law))
        if not isinstance(law, Friction):
            raise TypeError(
                "friction: expected a number or an object with the methods of dims.Friction, got "
                f"{law!r}"
            )
        return Dynamics(self.gravity, law)

    @classmethod
    def current_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Version 0.1.0 wrote null for no settling."""
        current = super().current_settings(settings)
        return {**current, "settle": "none" if current["settle"] is None else current["settle"]}

    def draw(
        self, start: Start, perturbations: RowVectors, progress: Report | None = None
    ) -> dict[str, Any]:
        """Follow the particles, settle and certify their ends; see `Sampler.draw`."""
        if self.temperature != 1.0:
            perturbations = math.sqrt(self.temperature) * perturbations
        thetas, fields = self.travel(start, perturbations, progress)
        displacement = torch.zeros_like(fields["arc_length"])
        if self.settle != "none":
            stiff_in_motion = self.settle == "stiff" and self.metric != "euclidean"
            reduction = MOVING_REDUCTION if stiff_in_motion else REDUCTION
            settled = settle(start.surface, thetas, method=self.settle, reduction=reduction)
            thetas, displacement = settled.positions, settled.displacement
        fields |= {"parameters": thetas, "displacement": displacement, **start.measure(thetas)}
        if self.certify:
            certificates = certify(start.surface, thetas)
            fields["smallest_eigenvalue"] = certificates.smallest_eigenvalue
            fields["verdict"] = [verdict.name for verdict in certificates.verdict]
        return fields
