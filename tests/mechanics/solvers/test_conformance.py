"""Every solver and every friction keeps its contract, also one from outside the package."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import dims
from cases import slow
from conformance import solvers as conformance
from conformance.solvers import check_friction, check_solver
from dims.mechanics.solvers import merge, tangent_moment

pytestmark = pytest.mark.usefixtures("unchecked")


# --- A solver and a friction as a user of the package would write them -------------------------


@dataclass(frozen=True, kw_only=True)
class ClassicalState(dims.RowState):
    gradient: Tensor


@dataclass(frozen=True)
class Classical(dims.Solver):
    """The classical Runge–Kutta method of fourth order, with a fixed step."""

    step: float = 0.025

    def start(self, surface, dynamics, position, velocity, max_time):
        loss, gradient = surface.value_and_grad(position)
        return ClassicalState.begin(
            position,
            velocity,
            tangent_moment(loss, gradient, velocity),
            dynamics,
            proposed_step=torch.full_like(loss, self.step),
            finite=loss.isfinite() & gradient.isfinite().all(-1) & velocity.isfinite().all(-1),
            gradient=gradient,
        )

    def advance(self, state, surface, dynamics, times):
        def slope(position, velocity):
            return velocity, dynamics.acceleration(
                velocity, *surface.grad_and_hvp(position, velocity)
            )

        h = state.next_step(times)
        theta, v, column = state.position, state.velocity, h.to(state.velocity.dtype).unsqueeze(-1)
        speeds, forces = [], []
        for part in (0.0, 0.5, 0.5, 1.0):
            move = (speeds[-1], forces[-1]) if speeds else (0.0, 0.0)
            speed, force = slope(theta + part * column * move[0], v + part * column * move[1])
            speeds.append(speed)
            forces.append(force)
        weights = (1 / 6, 1 / 3, 1 / 3, 1 / 6)
        theta = theta + column * sum(w * k for w, k in zip(weights, speeds, strict=True))
        v = v + column * sum(w * k for w, k in zip(weights, forces, strict=True))
        loss, gradient = surface.value_and_grad(theta)
        moment = tangent_moment(loss, gradient, v)
        active, finite = state.active, loss.isfinite() & moment.kinetic.isfinite()
        state = state.spend(evaluations=5)
        arrived = replace(
            state.accept(active & finite, h, moment, dynamics, times),
            position=theta,
            velocity=v,
            gradient=gradient,
        )
        rejected = state.reject(h, 0.5 * h, finite, times[-1], give_up_after=20)
        return merge(active & finite, arrived, merge(active, rejected, state))


@dataclass(frozen=True)
class QuadraticFriction:
    """η = c·T."""

    coefficient: float

    def rate(self, kinetic):
        return self.coefficient * kinetic

    def decay(self, kinetic, time):
        return (1 + 2 * self.coefficient * kinetic * time).rsqrt()

    def power(self, kinetic):
        return 2 * self.coefficient * kinetic.square()

    def power_slope(self, kinetic):
        return 4 * self.coefficient * kinetic


# --- The checks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "order"), [(dims.Rattle, 2), slow(dims.Dopri5, 5), slow(Classical, 4)]
)
def test_solvers_keep_their_contract(solver, order):
    check_solver(solver, order=order)


@pytest.mark.parametrize(
    "friction", [dims.ConstantFriction(0.3), dims.SpeedFriction(0.3), QuadraticFriction(0.3)]
)
def test_frictions_keep_their_contract(friction):
    check_friction(friction)


def test_a_solver_and_a_friction_from_outside_work_together():
    """On a plane without gravity v keeps its direction and decays like (1 + 2cTt)^(−½)."""
    surface = dims.Surface(lambda theta: 2.0 * theta[0])
    velocity = torch.tensor([[1.0, 0.5]], dtype=torch.float64)
    kinetic = 0.5 * (1.25 + 4.0)
    factor = 1 / math.sqrt(1 + 2 * 0.3 * kinetic * 2.0)
    for solver in (Classical(), dims.Rattle(), dims.Dopri5()):
        path = dims.integrate(
            surface,
            torch.zeros(1, 2, dtype=torch.float64),
            velocity,
            dynamics=dims.Dynamics(0.0, QuadraticFriction(0.3)),
            solver=solver,
            max_time=2.0,
        )
        torch.testing.assert_close(path.velocities[0], factor * velocity, rtol=1e-3, atol=0)


# --- The checks see what is wrong ---------------------------------------------------------------


class WithoutEvaluations(Classical):
    def advance(self, state, surface, dynamics, times):
        new = super().advance(state, surface, dynamics, times)
        return replace(new, ledger=replace(new.ledger, evaluations=state.ledger.evaluations))


class Entangled(Classical):
    def advance(self, state, surface, dynamics, times):
        pace = 0.5 + 0.5 * state.velocity.norm() / (1 + state.velocity.norm())
        state = replace(state, proposed_step=self.step * pace * torch.ones_like(state.time))
        return super().advance(state, surface, dynamics, times)


class Overshooting(Classical):
    def advance(self, state, surface, dynamics, times):
        new = super().advance(state, surface, dynamics, times)
        return replace(new, time=torch.where(new.landed, new.time + 1e-9, new.time))


class Sticky(Classical):
    """Forgets what it multiplies: NaN in one row reaches all."""

    def advance(self, state, surface, dynamics, times):
        new = super().advance(state, surface, dynamics, times)
        poison = surface.value(new.position + 0.2).sum() * 0
        return replace(new, velocity=new.velocity + poison)


class Frictionless(Classical):
    def advance(self, state, surface, dynamics, times):
        return super().advance(state, surface, replace(dynamics, friction=None), times)


class Forgetful(Classical):
    """Keeps a count in the object that belongs into the state."""

    def start(self, *arguments):
        self.__dict__["count"] = 0
        return super().start(*arguments)

    def advance(self, state, surface, dynamics, times):
        self.__dict__["count"] += 1
        shorter = self.step * (1 if self.__dict__["count"] < 20 else 0.5)
        state = replace(state, proposed_step=torch.full_like(state.time, shorter))
        return super().advance(state, surface, dynamics, times)


BROKEN = [
    (WithoutEvaluations, conformance._check_budget, "count evaluations"),
    (Entangled, conformance._check_rows, "a row depends on|steps of a row"),
    (Overshooting, conformance._check_landing, "landed at"),
    (Sticky, conformance._check_poison, "met NaN|NaN ended|NaN in one"),
    (Frictionless, conformance._check_energy, "not ∫2ηT dt|rises under friction"),
    (Forgetful, conformance._check_checkpoint, "resumed run differ"),
]


@pytest.mark.parametrize(("solver", "check", "message"), BROKEN)
def test_a_broken_solver_is_named(solver, check, message):
    with pytest.raises(AssertionError, match=message):
        check(solver())


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (object, "dims.Solver"),
        (Overshooting, "landed at"),
        *(slow(solver, message) for solver, _, message in BROKEN if solver is not Overshooting),
    ],
)
def test_a_broken_solver_is_named_among_all_checks(solver, message):
    with pytest.raises(AssertionError, match=message):
        check_solver(solver)


def test_a_lower_order_is_seen():
    with pytest.raises(AssertionError, match="order 4"):
        conformance._check_order(Classical, order=5)


@dataclass(frozen=True)
class Contradiction(QuadraticFriction):
    wrong: str = "decay"

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        if name != object.__getattribute__(self, "wrong"):
            return value
        return lambda *arguments: 1.01 * value(*arguments)


@pytest.mark.parametrize("wrong", ["decay", "power", "power_slope"])
def test_a_friction_that_contradicts_itself_is_named(wrong):
    with pytest.raises(AssertionError, match=f"{wrong}: "):
        check_friction(Contradiction(0.3, wrong))


def test_a_state_of_another_kind_is_refused():
    class Odd(Classical):
        def start(self, *_):
            return None

    with pytest.raises(TypeError, match=r"solver: Odd\.start must return a RowState"):
        dims.integrate(dims.Surface(lambda theta: theta.sum()), torch.ones(2), torch.ones(2),
                       solver=Odd(), max_time=1.0)  # fmt: skip


def test_a_friction_must_be_one():
    with pytest.raises(TypeError, match=r"friction: expected an object such as .* got 0\.1"):
        dims.Dynamics(1.0, 0.1)
