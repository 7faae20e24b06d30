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

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.ledger import Ledger, project_to_tangent, tangent_moment
from dims.mechanics.rows import merge, too_short
from dims.mechanics.solvers.gradient_history import GradientHistory, dot
from dims.mechanics.solvers.rattle_step import RattleState, Trial, aim, correct, evaluate, land
from dims.mechanics.status import Status
from dims.model.shapes import RowScalars, RowVectors, Times
from dims.surface.base import BaseSurface

__all__ = ["Rattle"]

# Friction's error counts beside what it takes in a step or, where that is next to nothing, beside
# this part of the energy left: a hundredth of that over a thousand steps is a few per mille.
SMALL_LOSS = 2.5e-4


@dataclass(frozen=True)
class Rattle:
    """Settings; all constants that are not physics.

    `tolerance` bounds the relative energy error of a step and sets the angle by which the surface
    normal may turn in one (∝ tolerance^⅓). `step` fixes the step instead, for tests of order.
    """

    tolerance: float = 1e-2
    step: float | None = None

    turn: float = 0.2  # φ₀: the normal's turn per step, in radians, at tolerance 1e-2
    longest_turn: float = 0.35
    shortest_turn: float = 0.5  # × turn: how far energy errors may trim it
    # Growth must be as quick as shrinking, or every valley crossed leaves the energy lower.
    growth: float = 2.0
    trim: float = 1e-2  # the part of the tolerance above which energy errors shorten the turn
    repayment: float = 1e-2  # × T: the most that a step gives back of the energy errors so far
    friction_error: float = 1e-2  # of the energy that friction takes in a step, at tolerance 1e-2
    memory: float = 0.97  # how slowly an energy error is forgotten
    newton_tolerance: float = 0.3  # × tolerance: a smaller correction needs no new evaluation
    steepening: float = 0.05  # how far such a correction may change the slope, likewise
    newton_limit: float = 0.5  # a larger first correction means too long a step
    most_corrections: int = 12
    floor: float = 0.02  # × the energy left to lose: what T is not allowed to fall below as a scale
    noise: float = 100.0  # × machine epsilon × (1 + |L|): what the loss cannot resolve
    anchor: float = 0.02  # the part of z − L made good in a step in float32; in float64 all of it
    refresh_after: int = 6  # rejections in a row
    give_up_after: int = 60

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance: must lie between 0 and 1, got {self.tolerance}")
        if self.step is not None and not self.step > 0:
            raise ValueError(f"step: must be positive, got {self.step}")

    @property
    def fineness(self) -> float:
        """What angles scale with: an angle φ costs an energy error ∝ φ³."""
        return (self.tolerance / 1e-2) ** (1 / 3)

    @property
    def base_turn(self) -> float:
        return self.turn * self.fineness

    @property
    def newton_step(self) -> float:
        return self.newton_tolerance * self.tolerance

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
        count = torch.zeros_like(loss, dtype=torch.int64)
        flag = torch.zeros_like(loss, dtype=torch.bool)
        # A small part of a unit of path, so that the units of time do not matter.
        first = 1e-3 * min(1.0, max_time) / (1 + (2 * moment.kinetic).sqrt())
        finite = moment.kinetic.isfinite() & loss.isfinite() & gradient.isfinite().all(-1)
        return RattleState(
            position=position.double(),
            velocity=velocity,
            history=GradientHistory.begin(gradient),
            moment=moment,
            older_climb=moment.climb,
            oldest_climb=moment.climb,
            debt=zero,
            height=loss,
            time=zero,
            wish=first if self.step is None else torch.full_like(zero, self.step),
            step=zero,
            multiplier=zero,
            trial=position.double(),
            corrections=count,
            last_size=zero,
            failures=count,
            refreshing=flag,
            error_memory=zero,
            goal=count,
            landed=flag,
            status=torch.where(finite, Status.RUNNING.code, Status.NOT_FINITE.code),
            ledger=replace(Ledger.open(moment, dynamics), evaluations=count + 1),
        )

    def refresh(self, state: RattleState, surface: BaseSurface, dynamics: Dynamics) -> RattleState:
        """Rows that keep failing begin anew: exact L and g, z = L, v tangent, no memory.

        (v, w) is projected orthogonally, which cannot add energy; what it takes is booked.
        """
        loss, gradient = evaluate(surface, state.position, state.velocity.dtype)
        velocity, _ = project_to_tangent(state.velocity, state.moment.climb, gradient)
        moment = tangent_moment(loss, gradient, velocity)
        change = moment.kinetic - state.moment.kinetic
        change = change + dynamics.gravity * (loss - state.moment.loss)
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
            debt=state.debt + change,
            height=loss,
            refreshing=torch.zeros_like(state.refreshing),
            ledger=ledger,
        )
        return merge(state.refreshing & state.running, anew, state)

    def advance(
        self, state: RattleState, surface: BaseSurface, dynamics: Dynamics, times: Times
    ) -> RattleState:
        """Aim every row at a trial point, evaluate them all, let each row act on its own."""
        state = aim(state, dynamics, times, self.newton_step, self._hold(state))
        loss, gradient = evaluate(surface, state.trial, state.velocity.dtype)
        return self._judge(state, loss, gradient, dynamics, times)

    def _judge(
        self,
        state: RattleState,
        loss: RowScalars,
        gradient: RowVectors,
        dynamics: Dynamics,
        times: Times,
    ) -> RattleState:
        """Accept the trial, correct its multiplier once more, or shorten the step."""
        h, old = state.step, state.moment
        active = state.running & ~state.refreshing & ~state.landed
        noise = self.noise * torch.finfo(gradient.dtype).eps * (1 + old.loss.abs())
        steepening = self.steepening * self.fineness
        trial = correct(
            state,
            loss,
            gradient,
            dynamics,
            noise,
            newton_step=self.newton_step,
            steepening=steepening,
            anchor=self._hold(state),
        )
        limit = torch.where(state.corrections == 0, self.newton_limit, 0.5 * state.last_size)
        again = trial.sound & ~trial.solved & (trial.size < limit)
        again = active & again & (state.corrections < self.most_corrections)

        end = land(state, trial, dynamics, self.repayment if self.step is None else 0.0)
        left = old.kinetic + dynamics.gravity * (old.loss - state.ledger.lowest_loss)
        scale = trial.kinetic + self.floor * left + noise / self.tolerance
        relative = (end.error.abs() - noise).clamp(min=0) / scale
        relative = torch.where(scale > 0, relative, torch.zeros_like(relative))
        precise = relative <= (torch.inf if self.step is not None else self.tolerance)
        accepted = active & trial.solved & precise & end.moment.kinetic.isfinite()

        goal_time = times[state.goal]
        landed = accepted & (state.time + h >= goal_time * (1 - 1e-14))
        goal = state.goal + landed.long()
        finished = goal == len(times)
        arrived = replace(
            state,
            position=trial.position,
            velocity=end.velocity,
            history=end.history(state.history, trial.gradient, h),
            moment=end.moment,
            older_climb=dot(state.history.newest, end.velocity),
            oldest_climb=dot(state.history.previous, end.velocity),
            debt=end.debt,
            height=trial.height,
            time=torch.where(landed, goal_time, state.time + h),
            corrections=torch.zeros_like(state.corrections),
            failures=torch.zeros_like(state.failures),
            error_memory=torch.maximum(relative, self.memory * state.error_memory),
            goal=torch.where(finished, state.goal, goal),
            landed=landed,
            status=torch.where(finished, Status.FINISHED.code, state.status),
            ledger=state.ledger.record(h, old, end.moment, end.error, dynamics),
        )
        taken = arrived.ledger.dissipated - state.ledger.dissipated
        unequal = (end.removed - taken).abs() / (taken + SMALL_LOSS * left + noise)
        wish = self._longest_step(arrived, relative, unequal, dynamics)
        arrived = replace(arrived, wish=wish)
        waiting = replace(
            state,
            multiplier=trial.multiplier,
            corrections=state.corrections + 1,
            last_size=trial.size,
        )
        retreated = self._retreat(state, trial, relative, times[-1])
        state = merge(accepted, arrived, merge(again, waiting, merge(active, retreated, state)))
        evaluations = state.ledger.evaluations + active.long()
        return replace(state, ledger=replace(state.ledger, evaluations=evaluations))

    def _hold(self, state: RattleState) -> float:
        return 1.0 if state.velocity.dtype == torch.float64 else self.anchor

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
            return state.wish
        turn = self._turn(state)
        # A step cut short by a landing says nothing against the longer wish before it.
        limit = self.growth * torch.maximum(state.step, state.wish)
        ease = (self.trim * self.tolerance / relative.clamp(min=1e-300)) ** (1 / 3)
        if dynamics.friction is not None:
            fair = self.friction_error * self.fineness**2
            ease = torch.minimum(ease, (fair / unequal.clamp(min=1e-300)).sqrt())
            rate = dynamics.friction.rate(state.moment.kinetic)
            limit = torch.minimum(limit, self.base_turn / rate)
        limit = torch.minimum(limit, state.step * (0.9 * ease).clamp(min=0.3))
        return state.history.longest_step(turn, limit)

    def _retreat(
        self, state: RattleState, trial: Trial, relative: RowScalars, end_time: Tensor
    ) -> RattleState:
        """A shorter step, from z = L: a carried residual would need ever stronger kicks."""
        cut = (0.8 * (relative / self.tolerance) ** (-1 / 3)).clamp(0.1, 0.8)
        factor = torch.where(trial.solved, cut, 0.5)
        failures = state.failures + 1
        hopeless = failures >= (1 if self.step is not None else self.give_up_after)
        hopeless = hopeless | too_short(state.step, state.time, end_time)
        end = torch.where(trial.finite, Status.STALLED.code, Status.NOT_FINITE.code)
        return replace(
            state,
            wish=state.step * factor,
            height=state.moment.loss,
            corrections=torch.zeros_like(state.corrections),
            failures=failures,
            refreshing=failures % self.refresh_after == 0,
            status=torch.where(hopeless, end, state.status),
            ledger=replace(state.ledger, rejections=state.ledger.rejections + 1),
        )
