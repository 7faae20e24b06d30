"""The formulas of one RATTLE step: where to aim, how to correct λ, how to land."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.geometry import columns, dot, kinetic_energy_of, project_to_tangent
from dims.mechanics.ledger import Moment
from dims.mechanics.solvers.base import RowState
from dims.mechanics.solvers.friction import friction_factor
from dims.mechanics.solvers.gradient_history import GradientHistory
from dims.model.shapes import RowFlags, RowIntegers, RowScalars, RowVectors, Times

__all__ = ["Accuracy", "Aim", "Landing", "RattleState", "Trial", "aim", "correct", "land"]

LARGEST_SECANT = 0.1  # beyond this the secant is no estimate of the gradient's change


@dataclass(frozen=True, kw_only=True)
class RattleState(RowState):
    """Where each row is, and what it is trying.

    The position is carried in float64 whatever the surface's precision; so is `trial`. The velocity
    is tangent: w = gᵀv is `moment.climb`.
    """

    history: GradientHistory  # its newest is the gradient at the position
    older_climb: RowScalars  # the velocity along the previous and the oldest gradient
    oldest_climb: RowScalars
    accumulated_error: RowScalars  # energy that steps made (negative: lost), not yet corrected
    height: RowScalars  # z: carried, not reset to L, or residuals of one sign would pump energy
    step: RowScalars  # the step being tried
    multiplier: RowScalars  # λ
    trial: RowVectors
    corrections: RowIntegers  # Newton corrections of λ in this step
    last_size: RowScalars  # of the last one, relative to the velocity
    error_memory: RowScalars  # the largest relative energy error of late

    @property
    def gradient(self) -> RowVectors:
        return self.history.newest


class Accuracy(NamedTuple):
    """How accurately a step meets the constraint and splits off the friction."""

    newton_step: float  # the largest correction of λ, beside the velocity, without an evaluation
    anchor: float  # the part of z − L made good in a step
    parts: int  # pieces of friction in half a step; 0: friction alone


class Aim(NamedTuple):
    """The state with its trial point, and what the landing there needs again."""

    state: RattleState
    direction: RowVectors  # in θ, into which λ pushes: F·g₀
    decay: RowScalars  # of the velocity, by the first half of the friction


def aim(state: RattleState, dynamics: Dynamics, times: Times, accuracy: Accuracy) -> Aim:
    """Choose the trial point: a new step with a guessed λ, or the same with a corrected one.

    The guess lets the height gained along v½ under the extrapolated gradient meet the constraint,
    which is linear in λ. What z and L already differ by is made good as far as a kick of the size
    `newton_step` can: at a tiny h the rounding of L would otherwise ask for enormous ones.
    """
    old, history = state.moment, state.history
    correcting = state.corrections > 0
    h = torch.where(correcting, state.step, state.next_step(times))
    decay = friction_factor(dynamics, old.kinetic, old.climb, 0.5 * h, accuracy.parts, before=True)
    curve = history.parabola()
    vp, vq = curve.along((old.climb, state.older_climb, state.oldest_climb))
    gp, gq = curve.along(history.with_newest)
    climb = decay * (old.climb + h * (vp / 2 + h * vq / 3))
    lift = history.gram00 + h * (gp / 2 + h * gq / 3)
    most = accuracy.newton_step * h * ((1 + history.gram00) * 2 * old.kinetic).sqrt()
    gap = torch.clamp(accuracy.anchor * (state.height - old.loss), -most, most)
    wanted = gap + h * (decay * old.climb - climb)
    guess = (wanted / (0.5 * h.square()) - dynamics.gravity) / (1 + lift)
    plain = -dynamics.gravity / (1 + history.gram00)
    guess = torch.where((1 + lift > 0) & guess.isfinite(), guess, plain)

    multiplier = torch.where(correcting, state.multiplier, guess)
    lifted = 0.5 * h.square() * multiplier
    path = columns(h * decay, state.velocity) * state.velocity
    path = path + columns(lifted, path) * history.newest
    path, direction = state.frame.lift_both(path, history.newest)
    aimed = replace(state, step=h, multiplier=multiplier, trial=state.position + path)
    return Aim(aimed, direction, decay)


class Trial(NamedTuple):
    """A trial point after one Newton correction of the constraint L(θ₁) = z₁."""

    finite: RowFlags
    sound: RowFlags  # finite, and 1 + g₁ᵀg₀ > 0: the root is not beyond a valley
    solved: RowFlags  # the correction is small and was applied without a new evaluation
    size: RowScalars  # of the correction, relative to the velocity
    multiplier: RowScalars  # corrected
    kinetic: RowScalars  # T after the first half of the friction
    half_velocity: RowVectors
    half_climb: RowScalars
    position: RowVectors
    height: RowScalars
    loss: RowScalars
    gradient: RowVectors


class HalfStep(NamedTuple):
    """The middle of a step: v½, w½ and what follows from them for the trial's λ."""

    kinetic: RowScalars  # T after the first half of the friction
    velocity: RowVectors
    climb: RowScalars
    height: RowScalars  # z₁
    along_newest: RowScalars  # g₀ᵀv½


def correct(
    aimed: Aim,
    loss: RowScalars,
    gradient: RowVectors,
    dynamics: Dynamics,
    noise: RowScalars,
    accuracy: Accuracy,
    steepening: float,
) -> Trial:
    """One Newton step for λ; where it is small, L moves to first order and g by a secant.

    F(λ) = L(θ₁) − z₁ has the slope (h²/2)(1 + g₁ᵀg₀). Residuals below the noise count as zero.
    Small means small beside the velocity, and small in what it does to the slope along it: across
    a sharp valley a shift that is nothing beside the step can turn the gradient round.
    """
    state = aimed.state
    h, history = state.step, state.history
    half = _half_step(state, aimed.decay, dynamics)
    with_newest = dot(gradient, history.newest)
    slope = 1 + with_newest
    bend = h * (dot(gradient, half.velocity) - half.along_newest)
    residual = _residual(state, half, loss, bend, noise, accuracy.anchor)
    correction = -residual / (0.5 * h.square() * slope)
    # The speed that a fall over h adds keeps the measure meaningful for a particle at rest.
    fall = h * dynamics.gravity * (1 - 1 / (1 + history.gram00)).sqrt()
    speed = (2 * half.kinetic + fall.square()).sqrt()
    size = 0.5 * h * correction.abs() * (1 + history.gram00).sqrt() / speed
    size = torch.where(residual == 0, torch.zeros_like(size), size)
    finite = loss.isfinite() & gradient.isfinite().all(-1)
    sound = finite & (slope > 0) & size.isfinite()
    steepened = 0.5 * h.square() * correction * (with_newest - history.gram00)
    harmless = torch.maximum(steepening * bend.abs(), 3 * accuracy.newton_step * h * speed)
    solved = sound & (size <= accuracy.newton_step) & (steepened.abs() <= harmless)

    applied = torch.where(solved, correction, torch.zeros_like(correction))
    kick, shift = 0.5 * h * applied, 0.5 * h.square() * applied
    secant = shift * (with_newest - history.gram00) / bend
    secant = torch.where(secant.abs() < LARGEST_SECANT, secant, torch.zeros_like(secant))
    return Trial(
        finite=finite,
        sound=sound,
        solved=solved,
        size=size,
        multiplier=state.multiplier + correction,
        kinetic=half.kinetic,
        half_velocity=half.velocity + columns(kick, gradient) * history.newest,
        half_climb=half.climb - kick,
        position=state.trial + columns(shift, gradient) * aimed.direction,
        height=half.height - shift,
        loss=loss + shift * with_newest,
        gradient=gradient + columns(secant, gradient) * (gradient - history.newest),
    )


def _half_step(state: RattleState, decay: RowScalars, dynamics: Dynamics) -> HalfStep:
    """v½ = v + (h/2)λ g₀ and w½ = w − (h/2)(κ + λ), after the first half of the friction."""
    h, old, history, force = state.step, state.moment, state.history, state.multiplier
    climb = decay * old.climb - 0.5 * h * (dynamics.gravity + force)
    velocity = (
        columns(decay, state.velocity) * state.velocity
        + columns(0.5 * h * force, state.velocity) * history.newest
    )
    return HalfStep(
        kinetic=decay.square() * old.kinetic,
        velocity=velocity,
        climb=climb,
        height=state.height + h * climb,
        along_newest=decay * old.climb + 0.5 * h * force * history.gram00,
    )


def _residual(
    state: RattleState,
    half: HalfStep,
    loss: RowScalars,
    bend: RowScalars,
    noise: RowScalars,
    anchor: float,
) -> RowScalars:
    """L(θ₁) − z₁, zero below the noise.

    An `anchor` below 1 is for float32: the residual then sums slopes, and within its noise L only
    pulls z back by that part.
    """
    h = state.step
    residual = loss - half.height
    if anchor < 1:
        # The rise by the trapezoidal rule: unlike a difference of losses it does not drown in
        # rounding, which would heat the stiff directions. It drifts, so L holds it: loosely within
        # the noise of L, and firmly beyond.
        rise = h * half.along_newest + 0.5 * bend
        slopes = rise - h * half.climb + anchor * (state.moment.loss - state.height)
        gap = residual - slopes
        residual = slopes + gap.sign() * (gap.abs() - 4 * noise).clamp(min=0)
    return torch.where(residual.abs() <= anchor * noise, torch.zeros_like(residual), residual)


class Landing(NamedTuple):
    """The end of a step: on the tangent plane, its energy corrected, then slowed by the friction's
    second half."""

    velocity: RowVectors
    moment: Moment
    square: RowScalars  # ‖g₁‖²
    error: RowScalars  # the energy that the conservative part made
    accumulated_error: RowScalars
    removed: RowScalars  # the energy that both halves of the friction took

    def state(
        self,
        before: RattleState,
        accepted: RowFlags,
        trial: Trial,
        dynamics: Dynamics,
        times: Times,
    ) -> RattleState:
        """The state at the end of an accepted step; its next step is not proposed yet."""
        history, gradient, h = before.history, trial.gradient, before.step
        with_newest, with_previous = dot(gradient, history.newest), dot(gradient, history.previous)
        return replace(
            before.accept(accepted, h, self.moment, dynamics, times, self.error),
            position=trial.position,
            velocity=self.velocity,
            history=history.push(gradient, self.square, with_newest, with_previous, h),
            older_climb=dot(history.newest, self.velocity),
            oldest_climb=dot(history.previous, self.velocity),
            accumulated_error=self.accumulated_error,
            height=trial.height,
            corrections=torch.zeros_like(before.corrections),
        )


def land(
    state: RattleState, trial: Trial, dynamics: Dynamics, energy_correction: float, parts: int
) -> Landing:
    """v₁ = v½ + μ g₁ with μ = (w½ − (h/2)κ − g₁ᵀv½)/(1 + ‖g₁‖²), and the rest of the friction.

    Between the two the speed corrects the energy that this and earlier steps made or lost, by at
    most the part `energy_correction` of T: steps of varying length err with a sign, and errors of
    one sign would drift.
    """
    h, gradient = state.step, trial.gradient
    square = dot(gradient, gradient)
    fallen = trial.half_climb - 0.5 * h * dynamics.gravity
    velocity, _ = project_to_tangent(trial.half_velocity, fallen, gradient, square)
    climb = dot(gradient, velocity)
    kinetic = kinetic_energy_of(velocity, climb)
    error = dynamics.energy(kinetic - trial.kinetic, trial.height - state.height)
    accumulated = state.accumulated_error + error
    most = energy_correction * kinetic
    correction = torch.clamp(accumulated, -most, most)
    kept = kinetic - correction
    corrected = torch.where(kinetic > 0, kept / kinetic, 1.0).sqrt()
    decay = friction_factor(dynamics, kept, corrected * climb, 0.5 * h, parts, before=False)
    factor = decay * corrected
    moment = Moment(decay.square() * kept, trial.loss, factor * climb)
    removed = state.moment.kinetic - trial.kinetic + kept - moment.kinetic
    return Landing(
        velocity=columns(factor, velocity) * velocity,
        moment=moment,
        square=square,
        error=error,
        accumulated_error=accumulated - correction,
        removed=removed,
    )
