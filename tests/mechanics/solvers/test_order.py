"""Convergence orders by regression, on problems whose solution is known in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import dims
from cases import slow

Exact = Callable[[float], Tensor]


pytestmark = pytest.mark.usefixtures("without_shape_checks")  # many small steps


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def order(solver: type, steps: list[float], error: Callable[[object], float]) -> float:
    """The slope of log error against log step."""
    errors = [error(solver(step=step)) for step in steps]
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


def parabola_arc(u: float) -> float:
    """Arc length of z = x²/2 from 0 to u."""
    return 0.5 * (u * math.sqrt(1 + u * u) + math.asinh(u))


def parabola_from_arc(s: float) -> float:
    u = s
    for _ in range(100):
        u -= (parabola_arc(u) - s) / math.sqrt(1 + u * u)
    return u


RATTLE_STEPS = [0.1, 0.05, 0.025, 0.0125]
DOPRI_STEPS = [0.13, 0.065, 0.0325]
# dopri5 converges faster than its order where a leading error term happens to cancel.
SOLVERS = [(dims.Rattle, RATTLE_STEPS, (1.8, 2.2)), (dims.Dopri5, DOPRI_STEPS, (4.8, 6.0))]


@pytest.mark.parametrize(("solver", "steps", "expected"), [SOLVERS[0], slow(*SOLVERS[1])])
def test_geodesic_on_a_parabola_has_constant_speed_along_its_arc(solver, steps, expected):
    """In one dimension a geodesic runs along the graph at constant speed, whatever its shape."""
    surface = dims.Surface(lambda theta: 0.5 * theta.square().sum())
    speed, time = math.sqrt(1 + 0.5**2), 1.3  # v = 1 at u = −0.5
    exact = parabola_from_arc(parabola_arc(-0.5) + speed * time)
    exact_velocity = speed / math.sqrt(1 + exact**2)

    def error(solver) -> float:
        path = dims.integrate(
            surface,
            vector(-0.5),
            vector(1.0),
            dynamics=dims.geodesic(),
            solver=solver,
            max_time=time,
        )
        return abs(float(path.end) - exact) + abs(float(path.velocities) - exact_velocity)

    low, high = expected
    assert low < order(solver, steps, error) < high


@pytest.mark.parametrize(("solver", "steps", "expected"), [slow(*SOLVERS[0]), SOLVERS[1]])
def test_pendulum_from_a_circular_bowl(solver, steps, expected):
    """On the bowl z = −√(1−θ²) the particle is a pendulum: φ'' = −κ sin φ, θ = sin φ.

    Its period is 4K(sin(φ₀/2))/√κ, so after one period it is back where it was let go.
    """
    surface = dims.Surface(lambda theta: -(1 - theta.square().sum()).sqrt())
    gravity, start = 2.0, 1.0
    mean, other = 1.0, math.cos(start / 2)  # arithmetic-geometric mean gives K
    for _ in range(20):
        mean, other = (mean + other) / 2, math.sqrt(mean * other)
    period = 2 * math.pi / (mean * math.sqrt(gravity))
    quarter = period / 4

    def error(solver) -> float:
        path = dims.integrate(
            surface,
            vector(math.sin(start)),
            vector(0.0),
            dynamics=dims.gravitational(gravity),
            solver=solver,
            max_time=quarter,
        )
        # after a quarter of the period it passes the bottom with the speed of its fall
        fall = math.sqrt(2 * gravity * (1 - math.cos(start)))
        return abs(float(path.end)) + abs(float(path.velocities) + fall)

    low, high = expected
    assert low < order(solver, steps, error) < high


@pytest.mark.parametrize(("solver", "steps", "expected"), [SOLVERS[0], slow(*SOLVERS[1])])
def test_heavy_ball_limit(solver, steps, expected):
    """Where gradients are tiny the metric is the identity: θ'' = −κ∇L − η₀θ', a damped oscillator.

    L = c/2·θ² with c = 1e-12 and κ = 1/c has unit frequency and gradients of 1e-12.
    """
    scale, rate = 1e-12, 0.3
    surface = dims.Surface(lambda theta: 0.5 * scale * theta.square().sum())
    frequency = math.sqrt(1 - rate**2 / 4)
    time = 3.0
    exact = math.exp(-rate / 2 * time) * (
        math.cos(frequency * time) + (rate / 2) / frequency * math.sin(frequency * time)
    )

    def error(solver) -> float:
        path = dims.integrate(
            surface,
            vector(1.0),
            vector(0.0),
            dynamics=dims.damped(1 / scale, rate),
            solver=solver,
            max_time=time,
        )
        return abs(float(path.end) - exact)

    low, high = expected
    assert low < order(solver, steps, error) < high


@pytest.mark.parametrize("solver", [dims.Rattle(), dims.Dopri5()])
def test_free_particle_on_a_plane_moves_straight(solver):
    """On a tilted plane a geodesic is θ₀ + vt exactly, and friction alone slows it as 1/(1+ct)."""
    tilt = vector(3.0, -1.0)
    surface = dims.Surface(lambda theta: theta @ tilt)
    start, velocity = vector(0.2, 0.1), vector(1.0, 2.0)
    free = dims.integrate(
        surface, start, velocity, dynamics=dims.geodesic(), solver=solver, max_time=3.0
    )
    torch.testing.assert_close(free.end[0], start + 3 * velocity)
    slowed = dims.integrate(
        surface, start, velocity, dynamics=dims.dissipative(0.0, 0.5), solver=solver, max_time=3.0
    )
    kinetic = 0.5 * (velocity.square().sum() + (tilt @ velocity).square())
    pace = 0.5 * kinetic.sqrt()
    torch.testing.assert_close(
        slowed.end[0], start + velocity * torch.log1p(3 * pace) / pace, rtol=5e-3, atol=0
    )
    torch.testing.assert_close(
        slowed.velocities[0, 0], velocity / (1 + 3 * pace), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize(("solver", "steps"), [entry[:2] for entry in SOLVERS])
def test_fall_on_a_tilted_plane(solver, steps):
    """Gravity on a plane is a constant acceleration −κg/(1+‖g‖²): a parabola in time."""
    tilt = vector(3.0, -1.0)
    surface = dims.Surface(lambda theta: theta @ tilt)
    path = dims.integrate(
        surface,
        vector(0.0, 0.0),
        vector(1.0, 2.0),
        dynamics=dims.gravitational(2.0),
        solver=solver(step=steps[0]),
        max_time=3.0,
    )
    exact = 3 * vector(1.0, 2.0) - 0.5 * 9 * 2.0 * tilt / (1 + tilt.square().sum())
    torch.testing.assert_close(path.end[0], exact)


@pytest.mark.parametrize("dynamics", [slow(dims.geodesic()), dims.gravitational(1.5)])
def test_rattle_retraces_its_path(dynamics):
    """Without friction and at a fixed step, turning the velocity round brings the start back."""
    surface = dims.Surface(lambda theta: theta.square().sum() + theta.prod())
    start, velocity = vector(0.7, -0.3), vector(-1.0, 0.4)
    solver = dims.Rattle(step=0.05, tolerance=1e-9)
    out = dims.integrate(surface, start, velocity, dynamics=dynamics, solver=solver, max_time=4.0)
    back = dims.integrate(
        surface, out.end[0], -out.velocities[0, 0], dynamics=dynamics, solver=solver, max_time=4.0
    )
    assert float((out.end - start).norm()) > 0.1
    torch.testing.assert_close(back.end[0], start, rtol=0, atol=1e-8)
    torch.testing.assert_close(back.velocities[0, 0], -velocity, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_solvers_agree_with_each_other_under_all_forces():
    surface = dims.Surface(lambda theta: 1.5 * theta.square().sum() + 0.3 * theta.prod().sin())
    start, velocity = vector(1.0, 0.5), vector(0.3, -1.0)
    for dynamics in (
        dims.geodesic(),
        dims.gravitational(0.7),
        dims.damped(0.7, 0.3),
        dims.dissipative(0.7, 0.3),
    ):
        paths = [
            dims.integrate(surface, start, velocity, dynamics=dynamics, solver=solver, max_time=1.0)
            for solver in (dims.Rattle(tolerance=1e-5), dims.Dopri5(tolerance=1e-8))
        ]
        torch.testing.assert_close(paths[0].end, paths[1].end, rtol=0, atol=2e-3)
