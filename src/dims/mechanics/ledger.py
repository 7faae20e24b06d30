"""The energy ledger of each trajectory, kept in the same way for every solver.

E = T + κL must fall by ∫2ηT dt (Lemma 1). The ledger holds what the definitions of energy
violation, balance, step error and arc length need; the integral is an independent quadrature over
the accepted steps, not a sum of what a solver believes to have removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.geometry import dot, kinetic_energy_of
from dims.model.shapes import RowIntegers, RowScalars, RowVectors

__all__ = ["Ledger", "Moment", "energy_violation", "tangent_moment"]

# E_low may come arbitrarily near κL_low; below this part of the start energy it is all noise.
VIOLATION_FLOOR = 1e-4


@dataclass(frozen=True)
class Moment:
    """A row's energies at one time: T, L and the climbing speed w = gᵀv = dL/dt."""

    kinetic: RowScalars
    loss: RowScalars
    climb: RowScalars


def tangent_moment(loss: RowScalars, gradient: RowVectors, velocity: RowVectors) -> Moment:
    """The energies of a velocity at a point whose loss and gradient are known."""
    climb = dot(gradient, velocity)
    return Moment(kinetic_energy_of(velocity, climb), loss, climb)


@dataclass(frozen=True)
class Ledger:
    """Energies and counts of each row since its start."""

    start_energy: RowScalars
    lowest_energy: RowScalars
    lowest_loss: RowScalars
    lowest_kinetic: RowScalars
    largest_rise: RowScalars  # E − E_low since the last page was turned
    lowest_since: RowScalars  # E_low at the end of that stretch
    largest_change: RowScalars  # |E − E(0)|, for dynamics without friction
    dissipated: RowScalars
    step_error: RowScalars
    arc_length: RowScalars  # in the euclidean metric
    metric_length: RowScalars  # in the metric of the motion
    refresh_time: RowScalars  # seconds spent on new frames
    steps: RowIntegers
    rejections: RowIntegers
    evaluations: RowIntegers

    @staticmethod
    def open(moment: Moment, dynamics: Dynamics) -> Ledger:
        energy = dynamics.energy(moment.kinetic, moment.loss)
        zero = torch.zeros_like(energy)
        count = torch.zeros_like(energy, dtype=torch.int64)
        return Ledger(
            energy,
            energy,
            moment.loss,
            moment.kinetic,
            zero,
            energy,
            zero,
            zero,
            zero,
            zero,
            zero,
            zero,
            count,
            count,
            count,
        )

    def record(
        self,
        step: RowScalars,
        before: Moment,
        after: Moment,
        error: RowScalars | None,
        dynamics: Dynamics,
    ) -> Ledger:
        """Record an accepted step. `error` is the energy change of its conservative part; a solver
        that does not split its steps leaves it to the change that friction does not explain."""
        energy = dynamics.energy(after.kinetic, after.loss)
        lost = _dissipation(step, before, after, dynamics)
        if error is None:
            error = energy + lost - before.kinetic - dynamics.potential(before.loss)
        lowest_energy = torch.minimum(self.lowest_energy, energy)
        speeds = (2 * before.kinetic).sqrt() + (2 * after.kinetic).sqrt()
        length = 0.5 * step * speeds
        return replace(
            self,
            lowest_energy=lowest_energy,
            lowest_loss=torch.minimum(self.lowest_loss, after.loss),
            lowest_kinetic=torch.minimum(self.lowest_kinetic, after.kinetic),
            largest_rise=torch.maximum(self.largest_rise, energy - lowest_energy),
            lowest_since=lowest_energy,
            largest_change=torch.maximum(self.largest_change, (energy - self.start_energy).abs()),
            dissipated=self.dissipated + lost,
            step_error=self.step_error + error.abs(),
            arc_length=self.arc_length + length,
            metric_length=self.metric_length + length,
            steps=self.steps + 1,
        )

    def turn_page(self) -> Ledger:
        """Start a new stretch, after the old one's rise and level were filed."""
        return replace(self, largest_rise=torch.zeros_like(self.largest_rise))


def _dissipation(step: RowScalars, before: Moment, after: Moment, dynamics: Dynamics) -> RowScalars:
    """∫2ηT dt over a step by Hermite's rule; the slope of T is known: T' = −κw − 2ηT."""
    friction = dynamics.friction
    if friction is None:
        return torch.zeros_like(step)

    def power_and_slope(moment: Moment) -> tuple[RowScalars, RowScalars]:
        power = friction.power(moment.kinetic)
        growth = -dynamics.potential(moment.climb) - power
        return power, friction.power_slope(moment.kinetic) * growth

    power0, slope0 = power_and_slope(before)
    power1, slope1 = power_and_slope(after)
    return 0.5 * step * (power0 + power1) + step.square() / 12 * (slope0 - slope1)


def energy_violation(
    pages: list[tuple[Tensor, Tensor, Tensor]], ledger: Ledger, dynamics: Dynamics
) -> RowScalars:
    """The largest rise of E above its running minimum, relative to the energy left to lose.

    A page is (rows, largest rise, E_low at its end) of a stretch of steps: the level is the
    lowest of the stretch, so the ratio is never understated.
    """
    floor_loss = dynamics.potential(ledger.lowest_loss)
    start = ledger.start_energy - floor_loss
    if dynamics.conservative:
        return torch.where(start > 0, ledger.largest_change / start, torch.zeros_like(start))
    worst = torch.zeros_like(start)
    for rows, rise, level in pages:
        left = torch.maximum(level - floor_loss[rows], VIOLATION_FLOOR * start[rows])
        ratio = torch.where(left > 0, rise / left, torch.zeros_like(left))
        worst[rows] = torch.maximum(worst[rows], ratio)
    return worst
