"""The forces on a particle that moves on the graph of a loss.

    θ'' = −(vᵀHv + κ)·g/(1 + ‖g‖²) − η·v,     T = ½(‖v‖² + (gᵀv)²)

Without κ and η the particle follows a geodesic; gravity κ pulls it down; friction η slows it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Protocol, runtime_checkable

import torch

from dims.mechanics.geometry import kinetic_energy
from dims.model.shapes import RowScalars, RowVectors
from dims.prediction.showing import ShownSettings

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
    """A force −η(T)·v along the velocity, with a rate that depends on the kinetic energy alone.

    Any object with these four methods is a friction: give it to `Dynamics(gravity, friction)`.
    All tensors are rows (S,). The solvers use `decay` (RATTLE solves friction exactly), `rate`
    (Runge–Kutta) and `power` with its slope (the energy ledger), so the four must describe one
    law; `check_friction` in tests/conformance checks that they do.

    Example:
        >>> @dataclass(frozen=True)
        ... class QuadraticFriction:  # η = c·T
        ...     coefficient: float
        ...     def rate(self, kinetic):
        ...         return self.coefficient * kinetic
        ...     def decay(self, kinetic, time):
        ...         return (1 + 2 * self.coefficient * kinetic * time).rsqrt()
        ...     def power(self, kinetic):
        ...         return 2 * self.coefficient * kinetic.square()
        ...     def power_slope(self, kinetic):
        ...         return 4 * self.coefficient * kinetic
        >>> dims.Dynamics(gravity=1.0, friction=QuadraticFriction(0.1))
    """

    def rate(self, kinetic: RowScalars) -> RowScalars:
        """η at kinetic energy T."""

    def decay(self, kinetic: RowScalars, time: RowScalars) -> RowScalars:
        """The factor on v after `time` under friction alone, started at T: the exact flow."""

    def power(self, kinetic: RowScalars) -> RowScalars:
        """2ηT, the energy lost per unit of time."""

    def power_slope(self, kinetic: RowScalars) -> RowScalars:
        """d(2ηT)/dT."""


@dataclass(frozen=True)
class ConstantFriction(ShownSettings):
    """η = η₀, the friction of Polyak's heavy ball; v decays like e^(−η₀t).

    Args:
        coefficient: η₀, finite and not negative.

    Raises:
        ValueError: `coefficient` is negative, NaN or infinite.

    Example:
        >>> dims.Dynamics(gravity=1.0, friction=dims.ConstantFriction(0.1))
    """

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
class SpeedFriction(ShownSettings):
    """η = η₀√T, the friction of DiMS; v decays like 1/(1 + η₀√T·t).

    Args:
        coefficient: η₀, finite and not negative.

    Raises:
        ValueError: `coefficient` is negative, NaN or infinite.

    Example:
        >>> dims.Dynamics(gravity=1.0, friction=dims.SpeedFriction(0.1))
    """

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
class Dynamics(ShownSettings):
    """The forces on a particle: gravity κ and a friction; either may be absent.

    The energy E = T + κL of a trajectory falls at the rate dE/dt = −2ηT (Lemma 1).

    Args:
        gravity: κ, the pull along the loss axis; finite and not negative.
        friction: A `Friction` such as `SpeedFriction(0.1)`, or None for no friction.

    Raises:
        ValueError: `gravity` is negative, NaN or infinite.
        TypeError: `friction` lacks a method of `Friction`.

    Example:
        >>> forces = dims.Dynamics(gravity=1.0, friction=dims.SpeedFriction(0.1))
        >>> forces == dims.dissipative(gravity=1.0, friction=0.1)
        True
    """

    gravity: float = 0.0
    friction: Friction | None = None

    def __post_init__(self) -> None:
        _check_not_negative("gravity", self.gravity)
        if self.friction is not None and not isinstance(self.friction, Friction):
            raise TypeError(
                f"friction: expected an object such as dims.SpeedFriction(0.1) or None, "
                f"got {self.friction!r}"
            )

    @property
    def conservative(self) -> bool:
        """Whether the energy stays constant: there is no friction."""
        return self.friction is None

    def potential(self, loss: RowScalars) -> RowScalars:
        """The potential energy κL; being linear, also that of a difference or a rate of losses."""
        return self.gravity * loss

    def energy(self, kinetic: RowScalars, loss: RowScalars) -> RowScalars:
        """E = T + κL; being linear, also the change of E from changes of T and L."""
        return kinetic + self.potential(loss)

    def decay(self, kinetic: RowScalars, time: RowScalars) -> RowScalars:
        """The factor on v after `time` under friction alone, 1 without friction."""
        if self.friction is None:
            return torch.ones_like(kinetic)
        return self.friction.decay(kinetic, time)

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
    """A free particle: the straightest path, θ'' = −(vᵀHv)·g/(1 + ‖g‖²), at constant speed (RLA).

    Returns:
        The dynamics, for `dims.integrate(..., dynamics=...)`.

    Example:
        >>> path = dims.integrate(surface, position, velocity, dynamics=dims.geodesic())
    """
    return Dynamics()


def gravitational(gravity: float = 1.0) -> Dynamics:
    """A particle that falls without friction: its energy T + κL is conserved.

    Args:
        gravity: κ, finite and not negative.

    Returns:
        The dynamics, for `dims.integrate(..., dynamics=...)`.

    Raises:
        ValueError: `gravity` is negative, NaN or infinite.

    Example:
        >>> path = dims.integrate(surface, position, velocity, dynamics=dims.gravitational(2.0))
    """
    return Dynamics(gravity)


def damped(gravity: float = 1.0, rate: float = 0.1) -> Dynamics:
    """Gravity and constant friction η = `rate`, the Riemannian heavy ball.

    Args:
        gravity: κ, finite and not negative.
        rate: η, finite and not negative.

    Returns:
        The dynamics, for `dims.integrate(..., dynamics=...)`.

    Raises:
        ValueError: `gravity` or `rate` is negative, NaN or infinite.

    Example:
        >>> path = dims.integrate(surface, position, velocity, dynamics=dims.damped(rate=0.3))
    """
    return Dynamics(gravity, ConstantFriction(rate))


def dissipative(gravity: float = 1.0, friction: float = 0.1) -> Dynamics:
    """Gravity and friction that grows with the speed, η = η₀√T (DiMS).

    Args:
        gravity: κ, finite and not negative.
        friction: η₀, finite and not negative.

    Returns:
        The dynamics, for `dims.integrate(..., dynamics=...)`.

    Raises:
        ValueError: `gravity` or `friction` is negative, NaN or infinite.

    Example:
        >>> path = dims.integrate(surface, position, velocity, dynamics=dims.dissipative(1.0, 0.5))
    """
    return Dynamics(gravity, SpeedFriction(friction))


def _check_not_negative(name: str, value: float) -> None:
    if not isinstance(value, Real):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: must be finite and not negative, got {value}")
