"""Do the guarantees hold on a trajectory? Bounds of Theorems 3 and 4, and a sharper one.

All energies are measured from the lowest loss seen on the row, E = T + κ(L − L_low).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dims.mechanics.dynamics import SpeedFriction
from dims.mechanics.trajectories import Trajectories
from dims.model.shapes import RowFlags, RowScalars

__all__ = ["Bounds", "theorem_bounds"]


@dataclass(frozen=True)
class Bounds:
    """What theory allows, beside what was seen on each row."""

    lowest_kinetic_energy: RowScalars
    kinetic_energy_limit: RowScalars
    arc_length: RowScalars
    arc_length_limit: RowScalars
    sharp_arc_length_limit: RowScalars

    @property
    def slows_down(self) -> RowFlags:
        """Theorem 3: by time t the kinetic energy has once been at most (E₀/(2η₀t))^⅔."""
        return self.lowest_kinetic_energy <= self.kinetic_energy_limit * (1 + 1e-9)

    @property
    def explores(self) -> RowFlags:
        """Theorem 4: (E₀ − E)/(√2 η₀ E₀) ≤ length of the lifted curve."""
        return self.arc_length >= self.arc_length_limit * (1 - 1e-9)

    @property
    def explores_sharply(self) -> RowFlags:
        """From d ln E/dt ≥ −2η₀√T: ln(E₀/E)/(√2 η₀) ≤ length."""
        return self.arc_length >= self.sharp_arc_length_limit * (1 - 1e-9)


def theorem_bounds(path: Trajectories) -> Bounds:
    """Evaluate the bounds of Theorems 3 and 4 at the end of every row.

    Theorem 3 says t_ε ≤ E₀/(2η₀ε^{3/2}) for the first time T ≤ ε. Taken at ε = the lowest T seen
    until t, it bounds that lowest T, which needs no first-passage time. Either way it does not say
    that the particle stays slow: a turning point is enough. The length bounds follow from what
    friction takes, so energy that was lost in the steps (a positive balance) counts as still there.

    Args:
        path: Trajectories under `dims.dissipative(...)` with friction > 0; the theorems are about
            friction that grows with the speed.

    Returns:
        The bounds beside what was observed, (S,) each; `slows_down`, `explores` and
        `explores_sharply` say in which rows they hold.

    Raises:
        ValueError: The trajectories had another friction, or none.

    Example:
        >>> bounds = dims.theorem_bounds(dims.integrate(surface, position, velocity))
        >>> bool(bounds.explores.all())
        True
    """
    friction = path.dynamics.friction
    if not isinstance(friction, SpeedFriction) or friction.coefficient == 0:
        raise ValueError("path: the bounds hold for dims.dissipative(...) with friction > 0 only")
    floor = path.dynamics.potential(path.lowest_loss)
    start = path.start_energy - floor
    end = path.end_energy - floor + path.energy_balance.clamp(min=0)
    kept = torch.where(start > 0, end.clamp(min=0) / start, 1.0)
    eta = friction.coefficient
    return Bounds(
        lowest_kinetic_energy=path.lowest_kinetic_energy,
        kinetic_energy_limit=(start / (2 * eta * path.end_time)) ** (2 / 3),
        arc_length=path.metric_length,
        arc_length_limit=(1 - kept) / (math.sqrt(2) * eta),
        sharp_arc_length_limit=-torch.log(kept) / (math.sqrt(2) * eta),
    )
