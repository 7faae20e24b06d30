"""Friction together with the pull along the path: closed forms on an inclined plane."""

from __future__ import annotations

import math

import pytest
import torch

import dims
from cases import slow
from dims.mechanics.solvers.friction import friction_factor
from dims.mechanics.solvers.rattle import Rattle

SLOPE, GRAVITY, FRICTION = 3.0, 2.0, 0.5
# Down the plane the speed along the graph follows s' = a − c·s².
PULL = GRAVITY * SLOPE / math.sqrt(1 + SLOPE**2)
DRAG = FRICTION / math.sqrt(2)
TERMINAL = math.sqrt(PULL / DRAG)


def loss_after_a_fall(time: float, solver: Rattle, speed: float) -> float:
    """Along a plane, from a speed down it."""
    surface = dims.Surface(lambda theta: SLOPE * theta[0])
    down = -speed / math.sqrt(1 + SLOPE**2)
    path = dims.integrate(
        surface,
        torch.zeros(2).double(),
        torch.tensor([down, 0.0]).double(),
        dynamics=dims.dissipative(GRAVITY, FRICTION),
        solver=solver,
        max_time=time,
    )
    return float(path.loss[-1, 0])


def exact_loss(time: float, speed: float) -> float:
    """From ∫s dt of the Riccati equation, for a start below the terminal speed."""
    rate = math.sqrt(PULL * DRAG)
    phase = math.atanh(speed / TERMINAL)
    length = math.log(math.cosh(rate * time + phase) / math.cosh(phase)) / DRAG
    return -length * SLOPE / math.sqrt(1 + SLOPE**2)


@pytest.mark.parametrize("parts", [slow(1), 2, slow(4)])
def test_a_steady_fall_is_faster_by_the_stated_part(parts):
    """(ηh)²/(32·parts²), and (ηh)²/8 for friction alone."""
    start = TERMINAL * (1 - 1e-9)
    rate = FRICTION * TERMINAL / math.sqrt(2)
    step = 0.2 / rate
    exact = exact_loss(50 * step, start)
    alone = loss_after_a_fall(50 * step, Rattle(step=step), start) / exact - 1
    joint = loss_after_a_fall(50 * step, Rattle(step=step, friction_parts=parts), start) / exact - 1
    assert alone == pytest.approx(0.2**2 / 8, rel=0.1)
    assert joint == pytest.approx(0.2**2 / 32 / parts**2, rel=0.1)


def test_speeding_up_and_slowing_down_converge_with_order_two():
    errors = []
    for step in (0.1, 0.05, 0.025):
        solver = Rattle(step=step, friction_parts=2)
        errors.append(abs(loss_after_a_fall(2.0, solver, 0.1) - exact_loss(2.0, 0.1)))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.3)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.3)


def test_without_gravity_along_the_path_it_is_the_exact_decay():
    dynamics = dims.dissipative(GRAVITY, FRICTION)
    kinetic, time = torch.tensor([0.3, 5.0]).double(), torch.tensor([0.4, 2.0]).double()
    flat = torch.zeros(2).double()
    for before in (True, False):
        factor = friction_factor(dynamics, kinetic, flat, time, 3, before=before)
        torch.testing.assert_close(factor, dynamics.decay(kinetic, time))


@pytest.mark.parametrize("before", [True, False])
def test_the_factor_slows_and_never_turns_back(before):
    """Also at a turning point, where the speed is nothing beside what gravity adds."""
    dynamics = dims.dissipative(GRAVITY, FRICTION)
    kinetic = torch.tensor([0.0, 1e-300, 1e-12, 1e-3, 1.0, 1e3]).double().repeat(3)
    climb = (2 * kinetic).sqrt() * torch.tensor([-1.0, 0.0, 1.0]).repeat_interleave(6)
    for time in (1e-6, 0.1, 1.0):
        steps = torch.full_like(kinetic, time)
        factor = friction_factor(dynamics, kinetic, climb, steps, 3, before=before)
        assert ((factor > 0) & (factor <= 1 + 1e-12)).all()
