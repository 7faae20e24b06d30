"""Dormand–Prince 5(4) with a step of its own for every row: the reference solver, batched.

It integrates y = (θ, v), y' = (v, a) with one Hessian-vector product a stage and controls the local
error of y, not the energy. At its default tolerances it is the solver of the published runs.

Reference: J. R. Dormand and P. J. Prince, J. Comput. Appl. Math. 6 (1980).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.geometry import columns
from dims.mechanics.ledger import tangent_moment
from dims.mechanics.metric.frame import Frame
from dims.mechanics.rows import merge
from dims.mechanics.solvers.base import RowState, Solver, check_settings
from dims.model.shapes import RowScalars, RowVectors, Times
from dims.surface.base import BaseSurface

__all__ = ["Dopri5", "Dopri5State"]

STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


@dataclass(frozen=True, kw_only=True)
class Dopri5State(RowState):
    """Where each row is; its acceleration is the next step's first stage."""

    acceleration: RowVectors
    gradient: RowVectors


@dataclass(frozen=True, repr=False)
class Dopri5(Solver[Dopri5State]):
    """Adaptive Runge–Kutta 5(4) of Dormand and Prince, each row with a step of its own.

    A step costs six gradients with Hessian-vector products. It controls the local error of (θ, v);
    prefer `Rattle` for long trajectories, where the energy matters.

    Args:
        tolerance: The relative tolerance on θ and v, between 0 and 1.
        absolute_factor: The absolute tolerance in units of the relative one; the defaults are those
            of the published runs (1e-7 and 1e-6).
        step: A fixed step instead of an adaptive one, for tests of order.
        give_up_after: Rejections in a row after which a row ends as stalled.

    Raises:
        ValueError: `tolerance` does not lie between 0 and 1, or `step` is not positive.

    Example:
        >>> path = dims.integrate(surface, position, velocity, solver=dims.Dopri5(tolerance=1e-9))
    """

    any_metric: ClassVar[bool] = True

    tolerance: float = 1e-7
    absolute_factor: float = 10.0
    step: float | None = None
    give_up_after: int = 60

    def __post_init__(self) -> None:
        check_settings(self.tolerance, self.step)

    def start(
        self,
        surface: BaseSurface,
        dynamics: Dynamics,
        position: RowVectors,
        velocity: RowVectors,
        max_time: float,
    ) -> Dopri5State:
        """Evaluate the rows where they stand and choose a first step from v and a."""
        loss = surface.value(position)
        gradient, product = surface.grad_and_hvp(position, velocity)
        force = dynamics.acceleration(velocity, gradient, product)
        moment = tangent_moment(loss, gradient, velocity)
        pace = torch.maximum(_norm(velocity), _norm(force)) + 1e-10
        first = (1e-3 * (1 + _norm(position)) / pace).clamp(max=1e-2 * max_time)
        return Dopri5State.begin(
            position,
            velocity,
            moment,
            dynamics,
            proposed_step=first if self.step is None else torch.full_like(loss, self.step),
            finite=moment.kinetic.isfinite() & loss.isfinite() & force.isfinite().all(-1),
            acceleration=force,
            gradient=gradient,
        )

    def restart(
        self, state: Dopri5State, gradient: RowVectors, surface: BaseSurface, dynamics: Dynamics
    ) -> Dopri5State:
        """In another frame, with the acceleration there."""
        _, product = _in_frame(surface, state.position, state.velocity, state.frame)
        force = dynamics.acceleration(state.velocity, gradient, product)
        return replace(state, gradient=gradient, acceleration=force)

    def advance(
        self, state: Dopri5State, surface: BaseSurface, dynamics: Dynamics, times: Times
    ) -> Dopri5State:
        """One step attempt of every row: six new stages, the last is the next step's first."""
        h = state.next_step(times)
        speeds, forces = [state.velocity], [state.acceleration]
        gradient, frame = state.gradient, state.frame
        for weights in STAGES:
            position = state.position + frame.lift(_combine(h, weights, speeds))
            velocity = state.velocity + _combine(h, weights, forces)
            gradient, product = _in_frame(surface, position, velocity, frame)
            speeds.append(velocity)
            forces.append(dynamics.acceleration(velocity, gradient, product))
        loss = surface.value(position)
        ratio = self._error_ratio(state, position, velocity, h, speeds, forces)
        moment = tangent_moment(loss, gradient, velocity)
        finite = ratio.isfinite() & loss.isfinite() & moment.kinetic.isfinite()
        precise = ratio <= (torch.inf if self.step is not None else 1.0)
        active = state.active
        accepted = active & finite & precise
        state = state.spend(evaluations=len(STAGES))

        factor = (0.9 * ratio.clamp(min=1e-10) ** -0.2).clamp(0.2, 10.0)
        # A step cut short by a landing says nothing against the longer one proposed before it.
        proposed = state.proposed_step
        grown = torch.maximum(h * factor, torch.where(factor >= 1, proposed, h * factor))
        arrived = replace(
            state.accept(accepted, h, moment, dynamics, times),
            position=position,
            velocity=velocity,
            acceleration=forces[-1],
            gradient=gradient,
            proposed_step=proposed if self.step is not None else grown,
        )
        shorter = h * torch.where(finite, factor.clamp(max=0.9), 0.2)
        patience = self.give_up_after if self.step is None else 1
        rejected = state.reject(h, shorter, finite, times[-1], patience)
        return merge(accepted, arrived, merge(active, rejected, state))

    def _error_ratio(
        self,
        state: Dopri5State,
        position: RowVectors,
        velocity: RowVectors,
        h: RowScalars,
        speeds: list[Tensor],
        forces: list[Tensor],
    ) -> RowScalars:
        """Root-mean-square of the embedded error over its tolerance, over θ and v together."""
        total = torch.zeros_like(h)
        for old, new, error in (
            (state.position, position, state.frame.lift(_combine(h, ERROR, speeds))),
            (state.velocity, velocity, _combine(h, ERROR, forces)),
        ):
            allowed = torch.maximum(old.abs(), new.abs()) + self.absolute_factor
            scaled = error / (self.tolerance * allowed)
            total = total + scaled.double().square().mean(-1)
        return (0.5 * total).sqrt()


def _in_frame(
    surface: BaseSurface, position: RowVectors, velocity: RowVectors, frame: Frame
) -> tuple[RowVectors, RowVectors]:
    """Fᵀg and FᵀHF·v."""
    gradient, product = surface.grad_and_hvp(position, frame.lift(velocity))
    return frame.pull(gradient), frame.pull(product)


def _combine(h: RowScalars, weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    total = sum(w * slope for w, slope in zip(weights, slopes, strict=True) if w != 0.0)
    return columns(h, slopes[0]) * total


def _norm(vectors: RowVectors) -> RowScalars:
    return torch.linalg.vector_norm(vectors, dim=-1).double()
