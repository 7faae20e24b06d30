"""RATTLE on the graph of the loss: structure-preserving, and one gradient a step.

The particle q = (θ, z) of unit mass falls with gravity κ in −z, held on z = L(θ). A step is half
the friction, free fall on the constraint, half the friction (Strang):

    v½ = v + (h/2)λ g₀        w½ = w − (h/2)(κ + λ)
    θ₁ = θ₀ + h v½            z₁ = z₀ + h w½        with λ such that L(θ₁) = z₁
    v₁ = v½ + μ g₁            w₁ = g₁ᵀv₁           with μ = (w½ − (h/2)κ − g₁ᵀv½)/(1 + ‖g₁‖²)

Every call of `advance` evaluates one trial point of every row; what a row does with it (accept,
one more Newton correction of λ, a shorter step) is its own affair, so rows never wait for others.

Reference: H. C. Andersen, "Rattle", J. Comput. Phys. 52 (1983); step control and constraint solve
are our own and explained in docs/solvers.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.geometry import project_to_tangent
from dims.mechanics.ledger import tangent_moment
from dims.mechanics.metric.frame import evaluate
from dims.mechanics.rows import merge
from dims.mechanics.solvers.base import Solver, check_settings
from dims.mechanics.solvers.gradient_history import GradientHistory
from dims.mechanics.solvers.rattle_step import Accuracy, Aim, RattleState, Trial, aim, correct, land
from dims.model.shapes import RowScalars, RowVectors, Times
from dims.surface.base import BaseSurface

__all__ = ["Rattle"]

# Friction's error counts beside what it takes in a step or, where that is next to nothing, beside
# this part of the energy left: a hundredth of that over a thousand steps is a few per mille.
SMALL_LOSS = 2.5e-4


@dataclass(frozen=True, repr=False)
class Rattle(Solver[RattleState]):
    """The default solver: one gradient a step, and the energy law holds over long times.

    The first two settings are for users; the others are all constants that are not physics, with
    the values that docs/solvers.md explains.

    Args:
        tolerance: Bounds the relative energy error of a step, between 0 and 1, and sets the angle
            by which the surface normal may turn in one (∝ tolerance^⅓).
        step: A fixed step instead of an adaptive one, for tests of order.
        turn: φ₀, the normal's turn per step, in radians, at tolerance 1e-2.
        longest_turn: The largest such turn.
        shortest_turn: How far energy errors may trim the turn, in units of it.
        growth: By how much the next step may be longer. Growth must be as quick as shrinking, or
            every valley crossed leaves the energy lower.
        trim: The part of the tolerance above which energy errors shorten the turn.
        energy_correction: The most that a step corrects of the energy errors so far, in units of T.
        friction_error: The error allowed in what friction takes in a step, at tolerance 1e-2.
        friction_turn: The most that η·h may be in a step, at tolerance 1e-2.
        friction_parts: Pieces of friction in half a step, with gravity between them; 0: alone.
        memory: How slowly an energy error is forgotten.
        newton_tolerance: A smaller correction of λ needs no new evaluation, in units of tolerance.
        steepening: How far such a correction may change the slope.
        newton_limit: A larger first correction means too long a step.
        most_corrections: Newton corrections in one step.
        floor: What T may not fall below as a scale of errors, of the energy left to lose.
        noise: What the loss cannot resolve, in units of machine epsilon × (1 + |L|).
        anchor: The part of z − L made good in a step in float32; in float64 all of it is.
        refresh_after: Rejections in a row after which a row is evaluated afresh.
        give_up_after: Rejections in a row after which a row ends as stalled.

    Raises:
        ValueError: `tolerance` does not lie between 0 and 1, or `step` is not positive.

    Example:
        >>> path = dims.integrate(surface, position, velocity, solver=dims.Rattle(tolerance=1e-3))
    """

    any_metric: ClassVar[bool] = True

    tolerance: float = 1e-2
    step: float | None = None
    turn: float = 0.2
    longest_turn: float = 0.35
    shortest_turn: float = 0.5
    growth: float = 2.0
    trim: float = 1e-2
    energy_correction: float = 1e-2
    friction_error: float = 1e-2
    friction_turn: float = 0.2
    friction_parts: int = 0
    memory: float = 0.97
    newton_tolerance: float = 0.3
    steepening: float = 0.05
    newton_limit: float = 0.5
    most_corrections: int = 12
    floor: float = 0.02
    noise: float = 100.0
    anchor: float = 0.02
    refresh_after: int = 6
    give_up_after: int = 60

    def __post_init__(self) -> None:
        check_settings(self.tolerance, self.step)

    @property
    def fineness(self) -> float:
        """What angles scale with: an angle φ costs an energy error ∝ φ³."""
        return (self.tolerance / 1e-2) ** (1 / 3)

    @property
    def base_turn(self) -> float:
        return self.turn * self.fineness

    def start(
        self,
        surface: BaseSurface,
        dynamics: Dynamics,
        position: RowVectors,
        velocity: RowVectors,
        max_time: float,
    ) -> RattleState:
        """Evaluate the rows where they stand and choose a cautious first step."""
        loss, gradient = surface.value_and_grad(position)
        moment = tangent_moment(loss, gradient, velocity)
        zero = torch.zeros_like(loss)
        # A small part of a unit of path, so that the units of time do not matter.
        first = 1e-3 * min(1.0, max_time) / (1 + (2 * moment.kinetic).sqrt())
        return RattleState.begin(
            position.double(),
            velocity,
            moment,
            dynamics,
            proposed_step=first if self.step is None else torch.full_like(zero, self.step),
            finite=moment.kinetic.isfinite() & loss.isfinite() & gradient.isfinite().all(-1),
            history=GradientHistory.begin(gradient),
            older_climb=moment.climb,
            oldest_climb=moment.climb,
            accumulated_error=zero,
            height=loss,
            step=zero,
            multiplier=zero,
            trial=position.double(),
            corrections=torch.zeros_like(loss, dtype=torch.int64),
            last_size=zero,
            error_memory=zero,
        )

    def refresh(self, state: RattleState, surface: BaseSurface, dynamics: Dynamics) -> RattleState:
        """Rows that keep failing begin anew: exact L and g, z = L, v tangent, no memory.

        (v, w) is projected orthogonally, which cannot add energy; what it takes is recorded.
        """
        loss, gradient = evaluate(surface, state.position, state.velocity.dtype, state.frame)
        velocity, _ = project_to_tangent(state.velocity, state.moment.climb, gradient)
        moment = tangent_moment(loss, gradient, velocity)
        old = state.moment
        change = dynamics.energy(moment.kinetic - old.kinetic, loss - old.loss)
        ledger = replace(
            state.ledger,
            step_error=state.ledger.step_error + change.abs(),
            evaluations=state.ledger.evaluations + 1,
        )
        anew = replace(
            state,
            velocity=velocity,
            history=GradientHistory.begin(gradient),
            moment=moment,
            accumulated_error=state.accumulated_error + change,
            height=loss,
            refreshing=torch.zeros_like(state.refreshing),
            ledger=ledger,
        )
        return merge(state.refreshing & state.running, anew, state)

    def restart(
        self, state: RattleState, gradient: RowVectors, surface: BaseSurface, dynamics: Dynamics
    ) -> RattleState:
        """In another frame, with the newest gradient and no older ones."""
        return replace(
            state,
            history=GradientHistory.begin(gradient),
            older_climb=state.moment.climb,
            oldest_climb=state.moment.climb,
            height=state.moment.loss,
            corrections=torch.zeros_like(state.corrections),
        )

    def advance(
        self, state: RattleState, surface: BaseSurface, dynamics: Dynamics, times: Times
    ) -> RattleState:
        """Aim every row at a trial point, evaluate them all, let each row act on its own."""
        aimed = aim(state, dynamics, times, self._accuracy(state))
        trial, frame = aimed.state.trial, aimed.state.frame
        loss, gradient = evaluate(surface, trial, state.velocity.dtype, frame)
        return self._judge(aimed, loss, gradient, dynamics, times)

    def _judge(
        self,
        aimed: Aim,
        loss: RowScalars,
        gradient: RowVectors,
        dynamics: Dynamics,
        times: Times,
    ) -> RattleState:
        """Accept the trial, correct its multiplier once more, or shorten the step."""
        state = aimed.state.spend(evaluations=1)
        old, active = state.moment, state.active
        noise = self.noise * torch.finfo(gradient.dtype).eps * (1 + old.loss.abs())
        trial = correct(
            aimed,
            loss,
            gradient,
            dynamics,
            noise,
            self._accuracy(state),
            steepening=self.steepening * self.fineness,
        )
        limit = torch.where(state.corrections == 0, self.newton_limit, 0.5 * state.last_size)
        again = trial.sound & ~trial.solved & (trial.size < limit)
        again = active & again & (state.corrections < self.most_corrections)

        corrected = self.energy_correction if self.step is None else 0.0
        end = land(state, trial, dynamics, corrected, self.friction_parts)
        left = dynamics.energy(old.kinetic, old.loss - state.ledger.lowest_loss)
        scale = trial.kinetic + self.floor * left + noise / self.tolerance
        relative = (end.error.abs() - noise).clamp(min=0) / scale
        relative = torch.where(scale > 0, relative, torch.zeros_like(relative))
        precise = relative <= (torch.inf if self.step is not None else self.tolerance)
        accepted = active & trial.solved & precise & end.moment.kinetic.isfinite()

        memory = torch.maximum(relative, self.memory * state.error_memory)
        arrived = replace(end.state(state, accepted, trial, dynamics, times), error_memory=memory)
        taken = arrived.ledger.dissipated - state.ledger.dissipated
        unequal = (end.removed - taken).abs() / (taken + SMALL_LOSS * left + noise)
        proposed_step = self._longest_step(arrived, relative, unequal, dynamics)
        arrived = replace(arrived, proposed_step=proposed_step)
        waiting = replace(
            state,
            multiplier=trial.multiplier,
            corrections=state.corrections + 1,
            last_size=trial.size,
        )
        rejected = self._reject(state, trial, relative, times[-1])
        return merge(accepted, arrived, merge(again, waiting, merge(active, rejected, state)))

    def _accuracy(self, state: RattleState) -> Accuracy:
        anchor = 1.0 if state.velocity.dtype == torch.float64 else self.anchor
        return Accuracy(self.newton_tolerance * self.tolerance, anchor, self.friction_parts)

    def _turn(self, state: RattleState) -> RowScalars:
        """The angle wanted per step; energy errors trim it."""
        errors = state.error_memory.clamp(min=1e-300)
        turn = self.base_turn * (self.trim * self.tolerance / errors) ** (1 / 3)
        longest = self.longest_turn * self.fineness
        return turn.clamp(self.shortest_turn * self.base_turn, longest)

    def _longest_step(
        self, state: RattleState, relative: RowScalars, unequal: RowScalars, dynamics: Dynamics
    ) -> RowScalars:
        """From the turn of the surface normal; energy errors trim the angle.

        No normal turns on a gentle surface, nor on a steep wall that speeds the particle up: there
        the energy error, and what friction should have taken beside what it took, set the step.
        """
        if self.step is not None:
            return state.proposed_step
        turn = self._turn(state)
        # A step cut short by a landing says nothing against the longer one proposed before it.
        limit = self.growth * torch.maximum(state.step, state.proposed_step)
        ease = (self.trim * self.tolerance / relative.clamp(min=1e-300)) ** (1 / 3)
        if dynamics.friction is not None:
            fair = self.friction_error * self.fineness**2
            ease = torch.minimum(ease, (fair / unequal.clamp(min=1e-300)).sqrt())
            rate = dynamics.friction.rate(state.moment.kinetic)
            limit = torch.minimum(limit, self.friction_turn * self.fineness / rate)
        limit = torch.minimum(limit, state.step * (0.9 * ease).clamp(min=0.3))
        return state.history.longest_step(turn, limit)

    def _reject(
        self, state: RattleState, trial: Trial, relative: RowScalars, end_time: Tensor
    ) -> RattleState:
        """A shorter step, from z = L: a carried residual would need ever stronger kicks."""
        cut = (0.8 * (relative / self.tolerance) ** (-1 / 3)).clamp(0.1, 0.8)
        shorter = state.step * torch.where(trial.solved, cut, 0.5)
        patience = self.give_up_after if self.step is None else 1
        rejected = state.reject(state.step, shorter, trial.finite, end_time, patience)
        return replace(
            rejected,
            height=state.moment.loss,
            corrections=torch.zeros_like(state.corrections),
            refreshing=rejected.failures % self.refresh_after == 0,
        )
