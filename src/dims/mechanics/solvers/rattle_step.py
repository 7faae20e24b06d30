"""The formulas of one RATTLE step: where to aim, how to correct λ, how to land."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.mechanics.ledger import Ledger, Moment
from dims.mechanics.rows import columns, next_step
from dims.mechanics.solvers.gradient_history import GradientHistory, dot
from dims.mechanics.status import Status
from dims.model.shapes import RowFlags, RowIntegers, RowScalars, RowVectors, Times
from dims.surface.base import BaseSurface

__all__ = ["Landing", "RattleState", "Trial", "aim", "correct", "evaluate", "land"]

LARGEST_SECANT = 0.1  # beyond this the secant is no estimate of the gradient's change


@dataclass(frozen=True)
class RattleState:
    """Where each row is, and what it is trying."""

    position: RowVectors  # in float64 whatever the surface's precision; so is `trial`
    velocity: RowVectors  # tangent; w = gᵀv is moment.climb
    history: GradientHistory  # its newest is the gradient at the position
    moment: Moment
    older_climb: RowScalars  # the velocity along the previous and the oldest gradient
    oldest_climb: RowScalars
    debt: RowScalars  # energy that steps made (negative: lost) and have not given back
    height: RowScalars  # z: carried, not reset to L, or residuals of one sign would pump energy
    time: RowScalars
    wish: RowScalars  # the step that the controller wants; `step` may land on a goal sooner
    step: RowScalars
    multiplier: RowScalars  # λ
    trial: RowVectors
    corrections: RowIntegers
    last_size: RowScalars
    failures: RowIntegers  # rejections in a row
    refreshing: RowFlags
    error_memory: RowScalars
    goal: RowIntegers  # index of the next time to land on
    landed: RowFlags  # on a goal, waiting for its state to be saved
    status: RowIntegers
    ledger: Ledger

    @property
    def running(self) -> RowFlags:
        return self.status == Status.RUNNING.code

    @property
    def gradient(self) -> RowVectors:
        return self.history.newest


def aim(
    state: RattleState, dynamics: Dynamics, times: Times, newton_step: float, anchor: float
) -> RattleState:
    """Choose the trial point: a new step with a guessed λ, or the same with a corrected one.

    The guess lets the height gained along v½ under the extrapolated gradient meet the constraint,
    which is linear in λ. What z and L already differ by is made good as far as a kick of the size
    `newton_step` can: at a tiny h the rounding of L would otherwise ask for enormous ones.
    """
    old, history = state.moment, state.history
    h = next_step(state.wish, times[state.goal] - state.time)
    decay = _decay(dynamics, old.kinetic, 0.5 * h)
    curve = history.parabola()
    vp, vq = curve.along((old.climb, state.older_climb, state.oldest_climb))
    gp, gq = curve.along(history.with_newest)
    climb = decay * (old.climb + h * (vp / 2 + h * vq / 3))
    lift = history.gram00 + h * (gp / 2 + h * gq / 3)
    most = newton_step * h * ((1 + history.gram00) * 2 * old.kinetic).sqrt()
    gap = torch.clamp(anchor * (state.height - old.loss), -most, most)
    wanted = gap + h * (decay * old.climb - climb)
    guess = (wanted / (0.5 * h.square()) - dynamics.gravity) / (1 + lift)
    plain = -dynamics.gravity / (1 + history.gram00)
    guess = torch.where((1 + lift > 0) & guess.isfinite(), guess, plain)

    correcting = state.corrections > 0
    h = torch.where(correcting, state.step, h)
    multiplier = torch.where(correcting, state.multiplier, guess)
    drift = h * _decay(dynamics, old.kinetic, 0.5 * h)
    lifted = 0.5 * h.square() * multiplier
    way = columns(drift, state.velocity) * state.velocity
    way = way + columns(lifted, way) * history.newest
    return replace(state, step=h, multiplier=multiplier, trial=state.position + way)


def evaluate(surface: BaseSurface, points: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Loss and gradient at float64 points, evaluated in the surface's precision.

    In float32 a step moves θ by little more than its rounding, and a steep gradient turns the
    rounding into noise of the loss; to first order it is known, and taken out.
    """
    rounded = points.to(dtype)
    loss, gradient = surface.value_and_grad(rounded)
    if dtype == points.dtype:
        return loss, gradient
    return loss + dot(gradient, (points - rounded).to(dtype)), gradient


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


def correct(
    state: RattleState,
    loss: RowScalars,
    gradient: RowVectors,
    dynamics: Dynamics,
    noise: RowScalars,
    *,
    newton_step: float,
    steepening: float,
    anchor: float,
) -> Trial:
    """One Newton step for λ; where it is small, L moves to first order and g by a secant.

    F(λ) = L(θ₁) − z₁ has the slope (h²/2)(1 + g₁ᵀg₀). Residuals below the noise count as zero.
    Small means small beside the velocity, and small in what it does to the slope along it: across
    a sharp valley a shift that is nothing beside the step can turn the gradient round.
    An `anchor` below 1 is for float32: F then sums slopes, and within its noise L
    only pulls z back by that part.
    """
    h, old, history, force = state.step, state.moment, state.history, state.multiplier
    decay = _decay(dynamics, old.kinetic, 0.5 * h)
    kinetic = decay.square() * old.kinetic
    half_climb = decay * old.climb - 0.5 * h * (dynamics.gravity + force)
    height = state.height + h * half_climb

    with_newest = dot(gradient, history.newest)
    slope = 1 + with_newest
    half_velocity = (
        columns(decay, gradient) * state.velocity
        + columns(0.5 * h * force, gradient) * history.newest
    )
    along_newest = decay * old.climb + 0.5 * h * force * history.gram00
    bend = h * (dot(gradient, half_velocity) - along_newest)
    residual = loss - height
    if anchor < 1:
        # The rise by the trapezoidal rule: unlike a difference of losses it does not drown in
        # rounding, which would heat the stiff directions. It drifts, so L holds it: loosely within
        # the noise of L, and firmly beyond.
        rise = h * along_newest + 0.5 * bend
        slopes = rise - h * half_climb + anchor * (old.loss - state.height)
        gap = residual - slopes
        residual = slopes + gap.sign() * (gap.abs() - 4 * noise).clamp(min=0)
    residual = torch.where(residual.abs() <= anchor * noise, torch.zeros_like(residual), residual)
    correction = -residual / (0.5 * h.square() * slope)
    # The speed that a fall over h adds keeps the measure meaningful for a particle at rest.
    fall = h * dynamics.gravity * (1 - 1 / (1 + history.gram00)).sqrt()
    speed = (2 * kinetic + fall.square()).sqrt()
    size = 0.5 * h * correction.abs() * (1 + history.gram00).sqrt() / speed
    size = torch.where(residual == 0, torch.zeros_like(size), size)
    finite = loss.isfinite() & gradient.isfinite().all(-1)
    sound = finite & (slope > 0) & size.isfinite()
    steepened = 0.5 * h.square() * correction * (with_newest - history.gram00)
    harmless = torch.maximum(steepening * bend.abs(), 3 * newton_step * h * speed)
    solved = sound & (size <= newton_step) & (steepened.abs() <= harmless)

    applied = torch.where(solved, correction, torch.zeros_like(correction))
    kick, shift = 0.5 * h * applied, 0.5 * h.square() * applied
    secant = shift * (with_newest - history.gram00) / bend
    secant = torch.where(secant.abs() < LARGEST_SECANT, secant, torch.zeros_like(secant))
    return Trial(
        finite=finite,
        sound=sound,
        solved=solved,
        size=size,
        multiplier=force + correction,
        kinetic=kinetic,
        half_velocity=half_velocity + columns(kick, gradient) * history.newest,
        half_climb=half_climb - kick,
        position=state.trial + columns(shift, gradient) * history.newest,
        height=height - shift,
        loss=loss + shift * with_newest,
        gradient=gradient + columns(secant, gradient) * (gradient - history.newest),
    )


class Landing(NamedTuple):
    """The end of a step: on the tangent plane, its energy debt paid, then slowed by the friction's
    second half."""

    velocity: RowVectors
    moment: Moment
    square: RowScalars  # ‖g₁‖²
    error: RowScalars  # the energy that the conservative part made
    debt: RowScalars
    removed: RowScalars  # the energy that both halves of the friction took

    def history(
        self, before: GradientHistory, gradient: RowVectors, step: RowScalars
    ) -> GradientHistory:
        with_newest = dot(gradient, before.newest)
        return before.push(gradient, self.square, with_newest, dot(gradient, before.previous), step)


def land(state: RattleState, trial: Trial, dynamics: Dynamics, repayment: float) -> Landing:
    """v₁ = v½ + μ g₁ with μ = (w½ − (h/2)κ − g₁ᵀv½)/(1 + ‖g₁‖²), and the rest of the friction.

    Between the two the speed gives back the energy that this and earlier steps made or lost, at
    most the part `repayment` of T: steps of varying length err with a sign, and errors of one sign
    would drift.
    """
    h, gradient = state.step, trial.gradient
    square = dot(gradient, gradient)
    slip = trial.half_climb - 0.5 * h * dynamics.gravity - dot(gradient, trial.half_velocity)
    velocity = trial.half_velocity + columns(slip / (1 + square), gradient) * gradient
    climb = dot(gradient, velocity)
    kinetic = 0.5 * (dot(velocity, velocity) + climb.square())
    error = kinetic - trial.kinetic + dynamics.gravity * (trial.height - state.height)
    debt = state.debt + error
    paid = torch.clamp(debt, -repayment * kinetic, repayment * kinetic)
    kept = kinetic - paid
    decay = _decay(dynamics, kept, 0.5 * h)
    factor = decay * torch.where(kinetic > 0, kept / kinetic, 1.0).sqrt()
    moment = Moment(decay.square() * kept, trial.loss, factor * climb)
    removed = state.moment.kinetic - trial.kinetic + kept - moment.kinetic
    return Landing(
        columns(factor, velocity) * velocity, moment, square, error, debt - paid, removed
    )


def _decay(dynamics: Dynamics, kinetic: RowScalars, time: RowScalars) -> RowScalars:
    if dynamics.friction is None:
        return torch.ones_like(kinetic)
    return dynamics.friction.decay(kinetic, time)
