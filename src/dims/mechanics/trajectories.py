"""`Trajectories`: what `integrate` returns, and how it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dims.mechanics.batch import Outcome
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.geometry import dot, kinetic_energy_of, project_to_tangent
from dims.mechanics.status import Status
from dims.model.shapes import RowIntegers, RowScalars, RowVectors
from dims.prediction.showing import Shown, counted_names
from dims.surface.base import BaseSurface

__all__ = ["Trajectories", "assemble"]


@dataclass(frozen=True, repr=False)
class Trajectories(Shown):
    """Trajectories at the saved times, T of them; without `save_at` each row's end, T = 1.

    S is the number of rows, K that of parameters; E = T + κL with the kinetic energy T.
    docs/solvers.md defines energy violation, balance and step error.

    Attributes:
        times: (T,); NaN where rows ended at different times and nothing was saved.
        positions: (T, S, K).
        velocities: (T, S, K).
        loss: (T, S).
        gradient_norm: ‖∇L‖, (T, S).
        kinetic_energy: (T, S).
        energy: E, (T, S).
        dissipated: ∫2ηT dt up to each saved time by an independent quadrature, (T, S).
        end_time: When each row ended, (S,) as all that follow.
        start_energy: E(0).
        end_energy: E at the end.
        start_kinetic_energy: The kinetic energy at the start.
        lowest_loss: The lowest loss on the trajectory.
        lowest_kinetic_energy: The lowest kinetic energy on the trajectory.
        energy_violation: The largest rise of E above its running minimum, relative to the energy
            left to lose; without friction the largest relative change.
        energy_balance: E(0) − E(end) − ∫2ηT dt.
        step_error: The sum of |energy change| of the conservative parts of the steps.
        arc_length: The length of the lifted curve in the euclidean metric.
        metric_length: Its length in the metric of the motion.
        steps: Accepted steps.
        rejections: Rejected steps.
        evaluations: Gradient evaluations; of "dopri5" with a Hessian-vector product each.
        refreshes: How often a moving metric was chosen, the start included.
        gradient_equivalents: `evaluations` and the time of the refreshes in units of one gradient
            of one row, timed in the same run.
        status: How each row ended, a `Status`.
        dynamics: The forces.

    Example:
        >>> path = dims.integrate(surface, position, velocity, save_at=[1.0, 2.0], max_time=2.0)
        >>> path.positions[0]  # at t = 1, (S, K)
        >>> [status.advice for status in path.status if not status.ok]
        []
    """

    times: Tensor
    positions: Tensor
    velocities: Tensor
    loss: Tensor
    gradient_norm: Tensor
    kinetic_energy: Tensor
    energy: Tensor
    dissipated: Tensor
    end_time: RowScalars
    start_energy: RowScalars
    end_energy: RowScalars
    start_kinetic_energy: RowScalars
    lowest_loss: RowScalars
    lowest_kinetic_energy: RowScalars
    energy_violation: RowScalars
    energy_balance: RowScalars
    step_error: RowScalars
    arc_length: RowScalars
    metric_length: RowScalars
    steps: RowIntegers
    rejections: RowIntegers
    evaluations: RowIntegers
    refreshes: RowIntegers
    gradient_equivalents: RowScalars
    status: list[Status]
    dynamics: Dynamics

    def _facts(self) -> dict[str, Any]:
        times, rows, size = self.positions.shape
        return {
            "trajectories": rows,
            "parameters": size,
            "times": times,
            "ended": counted_names(status.name for status in self.status),
            "evaluations": int(self.evaluations.sum()),
        }

    @property
    def end(self) -> RowVectors:
        """The last saved position of each row."""
        return self.positions[-1]


def assemble(
    outcome: Outcome,
    surface: BaseSurface,
    dynamics: Dynamics,
    position: RowVectors,
    velocity: RowVectors,
    start_loss: RowScalars,
    times: Tensor,
    save_at: Sequence[float] | Tensor | None,
) -> Trajectories:
    """Measure the saved states (without `save_at` the ends) and each row's whole trajectory."""
    ledger = outcome.ledger
    start_kinetic = ledger.start_energy - dynamics.potential(start_loss)
    ends = (outcome.position, outcome.velocity, outcome.climb, outcome.excess)
    end = _measure(surface, dynamics, *(values[None] for values in ends))
    if save_at is None:
        times = outcome.time[:1]
        if not (outcome.time == times).all():
            times = torch.full_like(times, torch.nan)
        shown, dissipated = end, ledger.dissipated[None]
        positions = outcome.position[None]
    else:
        wanted = torch.as_tensor(save_at, dtype=torch.float64, device=position.device)
        positions, velocities, climbs, excess, dissipated = _saved(
            outcome, position, velocity, surface, start_kinetic
        )
        kept = torch.searchsorted(torch.cat([times.new_zeros(1), times]), wanted)
        times, positions, dissipated = wanted, positions[kept], dissipated[kept]
        shown = _measure(surface, dynamics, positions, velocities[kept], climbs[kept], excess[kept])
    return Trajectories(
        times=times,
        positions=positions,
        velocities=shown.velocities,
        loss=shown.loss,
        gradient_norm=shown.gradient_norm,
        kinetic_energy=shown.kinetic,
        energy=shown.energy,
        dissipated=dissipated,
        end_time=outcome.time,
        start_energy=ledger.start_energy,
        end_energy=end.energy[0],
        start_kinetic_energy=start_kinetic,
        lowest_loss=ledger.lowest_loss,
        lowest_kinetic_energy=ledger.lowest_kinetic,
        energy_violation=outcome.energy_violation,
        energy_balance=ledger.start_energy - end.energy[0] - ledger.dissipated,
        step_error=ledger.step_error,
        arc_length=ledger.arc_length,
        metric_length=ledger.metric_length,
        steps=ledger.steps,
        rejections=ledger.rejections,
        evaluations=ledger.evaluations,
        refreshes=outcome.refreshes,
        gradient_equivalents=outcome.gradient_equivalents,
        status=[Status.from_code(code) for code in outcome.status.tolist()],
        dynamics=dynamics,
    )


class _Measured(NamedTuple):
    """States with their energies, (T, S) and velocities (T, S, K)."""

    velocities: Tensor
    loss: Tensor
    gradient_norm: Tensor
    kinetic: Tensor
    energy: Tensor


def _measure(
    surface: BaseSurface,
    dynamics: Dynamics,
    positions: Tensor,
    velocities: Tensor,
    climbs: Tensor,
    excess: Tensor,
) -> _Measured:
    """Evaluate afresh at every state, with (v, w) projected onto the exact tangent plane.

    A solver may carry a gradient that is good to first order only; where gradients are large, w
    taken from it and gᵀv differ, and the projection is the state that both stand for. `excess` is
    what the metric of the motion adds to the euclidean T.
    """
    columns = []
    for theta, v, climb, more in zip(positions, velocities, climbs, excess, strict=True):
        loss, gradient = surface.value_and_grad(theta)
        v, climb = project_to_tangent(v, climb, gradient)
        kinetic = kinetic_energy_of(v.double(), climb) + more
        norm = torch.linalg.vector_norm(gradient, dim=-1).double()
        columns.append((v, loss, norm, kinetic, dynamics.energy(kinetic, loss)))
    return _Measured(*(torch.stack(column) for column in zip(*columns, strict=True)))


def _saved(
    outcome: Outcome,
    position: Tensor,
    velocity: Tensor,
    surface: BaseSurface,
    start_kinetic: RowScalars,
) -> tuple[Tensor, ...]:
    """The saved states with the start in front."""
    assert outcome.saved_position is not None
    assert outcome.saved_velocity is not None
    assert outcome.saved_climb is not None
    assert outcome.saved_dissipated is not None
    assert outcome.saved_excess is not None
    _, gradient = surface.value_and_grad(position)
    climb = dot(gradient, velocity)
    excess = start_kinetic - kinetic_energy_of(velocity.double(), climb)
    excess = excess.where(outcome.refreshes > 0, 0.0)
    return (
        torch.cat([position[None], outcome.saved_position]),
        torch.cat([velocity[None], outcome.saved_velocity]),
        torch.cat([climb[None], outcome.saved_climb]),
        torch.cat([excess[None], outcome.saved_excess]),
        torch.cat([torch.zeros_like(climb)[None], outcome.saved_dissipated]),
    )
