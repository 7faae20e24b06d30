"""When a trajectory is over before its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dims.model.shapes import RowFlags, RowScalars
from dims.prediction.showing import ShownSettings

__all__ = ["AtRest", "StopCondition"]


@runtime_checkable
class StopCondition(Protocol):
    """A function of each row's time, loss, kinetic energy and gradient norm."""

    def __call__(
        self,
        time: RowScalars,
        loss: RowScalars,
        kinetic_energy: RowScalars,
        gradient_norm: RowScalars,
    ) -> RowFlags:
        """Which rows to stop."""


@dataclass(frozen=True)
class AtRest(ShownSettings):
    """Stops a row once its kinetic energy AND its gradient are small.

    A turning point has a small kinetic energy, a fast pass through a valley a small gradient;
    only a particle at rest has both.

    Args:
        kinetic_energy: The threshold on T, positive.
        gradient_norm: The threshold on ‖∇L‖, positive.

    Raises:
        ValueError: A threshold is not positive.

    Example:
        >>> path = dims.integrate(surface, position, velocity, stop=dims.AtRest(1e-4, 1e-2))
        >>> path.status[0] is dims.Status.AT_REST
        True
    """

    kinetic_energy: float = 1e-6
    gradient_norm: float = 1e-3

    def __post_init__(self) -> None:
        if self.kinetic_energy <= 0 or self.gradient_norm <= 0:
            raise ValueError("AtRest: both thresholds must be positive")

    def __call__(
        self,
        time: RowScalars,
        loss: RowScalars,
        kinetic_energy: RowScalars,
        gradient_norm: RowScalars,
    ) -> RowFlags:
        return (kinetic_energy < self.kinetic_energy) & (gradient_norm < self.gradient_norm)
