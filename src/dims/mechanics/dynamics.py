"""The forces on a particle that moves on the graph of a loss.

    θ'' = −(vᵀHv + κ)·g/(1 + ‖g‖²) − η·v,     T = ½(‖v‖² + (gᵀv)²)

Without κ and η the particle follows a geodesic; gravity κ pulls it down; friction η slows it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from dims.model.shapes import RowScalars, RowVectors

__all__ = [
    "ConstantFriction",
    "Dynamics",
    "Friction",
    "SpeedFriction",
    "damped",
    "dissipative",
    "geodesic",
    "gravitational",
    "kinetic_energy",
]


@runtime_checkable
class Friction(Protocol):
    """A force −η·v along the velocity."""

    def rate(self, kinetic: RowScalars) -> RowScalars:
        """η at kinetic energy T."""

    def decay(self, kinetic: RowScalars, time: RowScalars) -> RowScalars:
        """The factor on v after `time` under friction alone, started at T: the exact flow."""

    def power(self, kinetic: RowScalars) -> RowScalars:
        """2ηT, the energy lost per unit of time."""

    def power_slope(self, kinetic: RowScalars) -> RowScalars:
        """d(2ηT)/dT."""


@dataclass(frozen=True)
class ConstantFriction:
    """η = η₀, the friction of Polyak's heavy ball; v decays like e^(−η₀t)."""

    coefficient: float

    def __post_init__(self) -> None:
        _check_not_negative("friction", self.coefficient)

    def rate(self, kinetic: RowScalars) -> RowScalars:
        return torch.full_like(kinetic, self.coefficient)

    def decay(self, kinetic: RowScalars, time: RowScalars) -> RowScalars:
        return torch.exp(-self.coefficient * time)

    def power(self, kinetic: RowScalars) -> RowScalars:
        return 2 * self.coefficient * kinetic

    def power_slope(self, kinetic: RowScalars) -> RowScalars:
        return torch.full_like(kinetic, 2 * self.coefficient)


@dataclass(frozen=True)
class SpeedFriction:
    """η = η₀√T, the friction of DiMS; v decays like 1/(1 + η₀√T·t)."""

    coefficient: float

    def __post_init__(self) -> None:
        _check_not_negative("friction", self.coefficient)

    def rate(self, kinetic: RowScalars) -> RowScalars:
        return self.coefficient * kinetic.sqrt()

    def decay(self, kinetic: RowScalars, time: RowScalars) -> RowScalars:
        return 1 / (1 + self.coefficient * kinetic.sqrt() * time)

    def power(self, kinetic: RowScalars) -> RowScalars:
        return 2 * self.coefficient * kinetic * kinetic.sqrt()

    def power_slope(self, kinetic: RowScalars) -> RowScalars:
        return 3 * self.coefficient * kinetic.sqrt()


@dataclass(frozen=True)
class Dynamics:
    """Gravity κ and a friction; either may be absent."""

    gravity: float = 0.0
    friction: Friction | None = None

    def __post_init__(self) -> None:
        _check_not_negative("gravity", self.gravity)

    @property
    def conservative(self) -> bool:
        return self.friction is None

    def acceleration(
        self, velocity: RowVectors, gradient: RowVectors, curvature_along: RowVectors
    ) -> RowVectors:
        """θ'' from v, g and H·v."""
        bend = (velocity * curvature_along).sum(-1) + self.gravity
        pull = -(bend / (1 + gradient.square().sum(-1))).unsqueeze(-1) * gradient
        if self.friction is None:
            return pull
        rate = self.friction.rate(kinetic_energy(velocity, gradient))
        return pull - rate.unsqueeze(-1) * velocity


def geodesic() -> Dynamics:
    """A free particle: the straightest path, with constant speed (RLA)."""
    return Dynamics()


def gravitational(gravity: float = 1.0) -> Dynamics:
    """A particle that falls without friction: its energy T + κL is conserved."""
    return Dynamics(gravity)


def damped(gravity: float = 1.0, rate: float = 0.1) -> Dynamics:
    """Gravity and constant friction, the Riemannian heavy ball."""
    return Dynamics(gravity, ConstantFriction(rate))


def dissipative(gravity: float = 1.0, friction: float = 0.1) -> Dynamics:
    """Gravity and friction that grows with the speed (DiMS)."""
    return Dynamics(gravity, SpeedFriction(friction))


def kinetic_energy(velocity: Tensor, gradient: Tensor) -> Tensor:
    """T = ½(‖v‖² + (gᵀv)²) of each row."""
    return 0.5 * (velocity.square().sum(-1) + (gradient * velocity).sum(-1).square())


def _check_not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: must be finite and not negative, got {value}")
