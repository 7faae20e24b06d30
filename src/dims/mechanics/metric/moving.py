"""A metric that moves with the particle: stiff directions are softened where each row is.

    P ≈ Uᵀ diag(λ) U            leading curvature at the row's position
    s = min(1, √(f/|λ|))        f = max(c·δ, the smallest |λ| that is followed)

The frame F of a row (see `Frame`) stays until the surface normal has turned by a given angle more
than curvatures up to f explain: then the stiff directions are no longer those of F, and F is chosen
anew. φ' is kept and scaled so that T does not change: the energy E = T + κL is continuous, and
falls by what friction takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.geometry import columns, dot, precondition
from dims.mechanics.ledger import Ledger, Moment, tangent_moment
from dims.mechanics.metric.choice import Choice
from dims.mechanics.metric.frame import Frame, evaluate
from dims.mechanics.rows import map_tensors, select_rows
from dims.mechanics.solvers.base import RowState, Solver
from dims.model.shapes import RowVectors, Vector, check_integer, check_positive
from dims.prediction.showing import ShownSettings
from dims.surface.base import BaseSurface

__all__ = ["MovingMetric"]


@dataclass(frozen=True)
class MovingMetric(ShownSettings):
    """Soften the stiff directions of the loss at each row's own position, again and again.

    A particle moves with the metric G = M + ggᵀ instead of I + ggᵀ, with M constant between two
    refreshes. docs/moving_metric.md has the equations and what they preserve.

    Args:
        turn: A row is refreshed when its surface normal has turned by this angle, in radians, more
            than the softened curvatures explain.
        rank: How many directions are followed; None means a tenth of the data points, from 20 to
            100, and no more than half a gigabyte a row holds.
        floor: c: directions are softened to the curvature c·δ at most.
        points: How many data points a refresh looks at, chosen at random by their curvature; None
            means 64, three times the rank over the outputs but one, or a sixtieth of all, whichever
            is most; all where that is more than a third of them.
        flat_curvature: δ; None means the prior precision of a network. On a plain surface, and
            without a prior, directions are then softened to the smallest curvature that is followed
            and is not rounding.
        sweeps: Sweeps of subspace iteration in a refresh.
        seed: Seeds what is random, together with the numbers of the row and of the refresh.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> path = dims.integrate(surface, position, velocity, metric=dims.MovingMetric(rank=40))
        >>> draws = posterior.sample(30, dims.DiMS(metric=dims.MovingMetric(rank=40)))
    """

    turn: float = 10.0
    rank: int | None = None
    floor: float = 5.0
    points: int | None = None
    flat_curvature: float | None = None
    sweeps: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("turn", self.turn)
        check_positive("floor", self.floor)
        for name in ("rank", "points"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name))
        if self.flat_curvature is not None:
            check_positive("flat_curvature", self.flat_curvature)
        check_integer("sweeps", self.sweeps)
        check_integer("seed", self.seed, lowest=0)

    def begin(
        self,
        state: RowState,
        surface: BaseSurface,
        dynamics: Dynamics,
        solver: Solver,
        numbers: Tensor,
    ) -> RowState:
        """The first frame of every row, before anything moves: θ' is what was given."""
        frame = replace(state.frame, number=numbers)
        frame = self._choice(surface).first(state.position.to(state.velocity.dtype), frame)
        velocity = frame.lower(state.velocity)
        loss, gradient = evaluate(surface, state.position, velocity.dtype, frame)
        moment = tangent_moment(loss, gradient, velocity)
        frame = replace(frame, speed=frame.euclidean_speed(velocity, moment.climb))
        ledger = replace(Ledger.open(moment, dynamics), evaluations=state.ledger.evaluations + 1)
        state = replace(state, velocity=velocity, moment=moment, frame=frame, ledger=ledger)
        return solver.restart(state, gradient, surface, dynamics)

    def start_velocity(
        self, surface: BaseSurface, noise: RowVectors, position: Vector | RowVectors
    ) -> RowVectors:
        """θ' = F·G̃^(−½)·F⁻¹·ε, whose energy does not depend on the slope at a position."""
        places, own = position.reshape(-1, noise.shape[1]), torch.arange(len(noise))
        if len(places) == 1:
            own = torch.zeros_like(own)
        else:  # rows may share a start
            places, own = places.unique(dim=0, return_inverse=True)
        frame = self._choice(surface).first(places, Frame.euclidean(places))
        frame = map_tensors(lambda tensor: tensor[own], frame)
        _, gradient = surface.value_and_grad(places)
        gradient = frame.pull(gradient[own])
        return frame.lift(precondition(frame.lower(noise), gradient))

    def follow(self, before: RowState, after: RowState) -> RowState:
        """What an accepted step adds: the turn of the normal, and the length of the path in θ."""
        frame, accepted = after.frame, after.ledger.steps > before.ledger.steps
        step = after.time - before.time
        turned = frame.turned + _unexplained_turn(before, after, step)
        turned = turned.where(accepted, frame.turned)
        speed = frame.euclidean_speed(after.velocity, after.moment.climb)
        length = before.ledger.arc_length + 0.5 * step * (frame.speed + speed)
        length = length.where(accepted, after.ledger.arc_length)
        return replace(
            after,
            frame=replace(frame, turned=turned, speed=speed.where(accepted, frame.speed)),
            ledger=replace(after.ledger, arc_length=length),
            refreshing=after.refreshing | (turned >= self.turn),
        )

    def refresh(
        self, state: RowState, surface: BaseSurface, dynamics: Dynamics, solver: Solver
    ) -> tuple[RowState, Tensor]:
        """New frames for the rows whose normal has turned far enough, and which rows those are."""
        asked = state.refreshing & state.running & (state.frame.turned >= self.turn)
        due = asked.nonzero().squeeze(-1)
        if len(due) == 0:
            return state, due
        part = select_rows(state, due)
        dtype = part.velocity.dtype
        frame = self._choice(surface).next(part.position.to(dtype), part.frame)
        loss, gradient = evaluate(surface, part.position, dtype, frame)
        carried = _carried(part, frame, loss, gradient, dynamics)
        renewed = solver.restart(carried, gradient, surface, dynamics)
        # The directions are most of a state, and no one else holds them: they change in place.
        basis = state.frame.basis.index_copy_(0, due, renewed.frame.basis)
        new, old = _without_basis(renewed), _without_basis(state)
        merged = map_tensors(lambda a, b: a.index_copy(0, due, b), old, new)
        return replace(merged, frame=replace(merged.frame, basis=basis)), due

    def _choice(self, surface: BaseSurface) -> Choice:
        return Choice(
            surface,
            rank=self.rank,
            floor=self.floor,
            points=self.points,
            flat_curvature=self.flat_curvature,
            sweeps=self.sweeps,
            seed=self.seed,
        )


def _without_basis(state: RowState) -> RowState:
    return replace(state, frame=replace(state.frame, basis=state.frame.basis[:, :0]))


def _unexplained_turn(before: RowState, after: RowState, step: Tensor) -> Tensor:
    """The angle between two normals, times the part of ‖Δg̃‖ that is beyond f·‖Δφ‖.

    While F is fresh no curvature in it is much above f; near a minimum the particle may ring in
    it for long, and the normal turns to and fro without a reason to refresh.
    """
    old, new = before.gradient, after.gradient
    square, newer, mixed = dot(old, old), dot(new, new), dot(old, new)
    cosine = (1 + mixed) / ((1 + square) * (1 + newer)).sqrt()
    change = (square + newer - 2 * mixed).clamp(min=0).sqrt()
    path = 0.5 * step * (_speed(before) + _speed(after))
    beyond = (1 - after.frame.level * path / change).clamp(min=0)
    return torch.acos(cosine.clamp(-1, 1)) * beyond.where(change > 0, 0.0)


def _speed(state: RowState) -> Tensor:
    """‖φ'‖."""
    moment = state.moment
    return (2 * moment.kinetic - moment.climb.square()).clamp(min=0).sqrt()


def _carried(
    state: RowState, frame: Frame, loss: Tensor, gradient: Tensor, dynamics: Dynamics
) -> RowState:
    """φ' in the new frame, scaled so that T is what it was."""
    kinetic = state.moment.kinetic
    fresh = tangent_moment(loss, gradient, state.velocity)
    factor = (kinetic / fresh.kinetic).sqrt()
    factor = factor.where(factor.isfinite() & (fresh.kinetic > 0), 1.0)
    velocity = columns(factor, state.velocity) * state.velocity
    climb = factor * fresh.climb
    change = dynamics.potential(loss - state.moment.loss).abs()
    ledger = replace(
        state.ledger,
        step_error=state.ledger.step_error + change,
        evaluations=state.ledger.evaluations + 1,
    )
    return replace(
        state,
        velocity=velocity,
        moment=Moment(kinetic, loss, climb),
        frame=replace(frame, speed=frame.euclidean_speed(velocity, climb)),
        ledger=ledger,
        refreshing=torch.zeros_like(state.refreshing),
    )
