"""Forces against Riemannian geometry done densely, and friction against its own ODE."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from torch import Tensor

import dims
from cases import examples
from dims import ConstantFriction, Friction, SpeedFriction
from dims.mechanics.geometry import kinetic_energy

FRICTIONS = [ConstantFriction(0.3), SpeedFriction(0.3)]


def loss(theta: Tensor) -> Tensor:
    return theta.square().sum() + theta.prod().sin() + torch.exp(0.3 * theta[0])


def metric(theta: Tensor) -> Tensor:
    gradient = torch.func.grad(loss)(theta)
    return torch.eye(len(theta), dtype=theta.dtype) + torch.outer(gradient, gradient)


def states(rows: int = 4, size: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    thetas, velocities = torch.randn(2, rows, size, generator=generator, dtype=torch.float64)
    return thetas, velocities


def rows_of(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


@pytest.mark.parametrize(
    ("dynamics", "gravity", "rate"),
    [
        (dims.geodesic(), 0.0, lambda T: 0.0),
        (dims.gravitational(1.7), 1.7, lambda T: 0.0),
        (dims.damped(1.7, 0.3), 1.7, lambda T: 0.3),
        (dims.dissipative(1.7, 0.3), 1.7, lambda T: 0.3 * math.sqrt(T)),
        (dims.dissipative(0.0, 0.3), 0.0, lambda T: 0.3 * math.sqrt(T)),
    ],
)
def test_acceleration_is_that_of_the_metric_with_its_christoffel_symbols(dynamics, gravity, rate):
    """aᵏ = −Γᵏᵢⱼ vⁱvʲ − κ(G⁻¹g)ᵏ − η vᵏ, with Γ from derivatives of the dense metric."""
    thetas, velocities = states()
    surface = dims.Surface(loss)
    gradients, products = surface.grad_and_hvp(thetas, velocities)
    ours = dynamics.acceleration(velocities, gradients, products)
    for theta, v, a in zip(thetas, velocities, ours, strict=True):
        inverse = torch.linalg.inv(metric(theta))
        slope = torch.func.jacrev(metric)(theta)  # ∂G[i, j]/∂θ[k]
        first_kind = 0.5 * (slope + slope.transpose(1, 2) - slope.permute(2, 0, 1))
        christoffel = torch.einsum("kl,lij->kij", inverse, first_kind)
        kinetic = 0.5 * float(v @ metric(theta) @ v)
        expected = -torch.einsum("kij,i,j->k", christoffel, v, v)
        expected = expected - gravity * inverse @ torch.func.grad(loss)(theta)
        expected = expected - rate(kinetic) * v
        torch.testing.assert_close(a, expected, rtol=1e-9, atol=1e-10)


def test_kinetic_energy_is_half_the_squared_length_in_the_metric():
    thetas, velocities = states()
    _, gradients = dims.Surface(loss).value_and_grad(thetas)
    expected = [0.5 * v @ metric(theta) @ v for theta, v in zip(thetas, velocities, strict=True)]
    torch.testing.assert_close(kinetic_energy(velocities, gradients), torch.stack(expected))


def test_heavy_ball_limit():
    """c·L with gravity κ/c and c → 0 flattens the metric: a → −κ∇L − η₀v, an error of order c²."""
    thetas, velocities = states()
    gradients = torch.func.vmap(torch.func.grad(loss))(thetas)
    polyak = -1.7 * gradients - 0.3 * velocities
    errors = []
    for scale in (1e-2, 1e-3):
        flat = dims.Surface(lambda theta, scale=scale: scale * loss(theta))
        ours = dims.damped(1.7 / scale, 0.3).acceleration(
            velocities, *flat.grad_and_hvp(thetas, velocities)
        )
        errors.append(float((ours - polyak).abs().max()))
    assert errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("friction", FRICTIONS)
@pytest.mark.parametrize("kinetic", [1e-8, 0.4, 1e6])
def test_decay_solves_the_friction_ode(friction: Friction, kinetic):
    """Along v' = −η(T)v with T ∝ ‖v‖²; s(t) is the factor on v."""

    def slope(_, scale):
        here = torch.as_tensor(kinetic * scale**2)
        return -friction.rate(here).numpy() * scale

    span = 3.0 / float(friction.rate(rows_of(kinetic)))
    times = [0.1 * span, 0.5 * span, span]
    ode = solve_ivp(slope, (0, span), [1.0], t_eval=times, rtol=1e-11, atol=1e-13, method="DOP853")
    for time, expected in zip(times, ode.y[0], strict=True):
        ours = friction.decay(rows_of(kinetic), rows_of(time))
        assert float(ours) == pytest.approx(expected, rel=1e-9)


energies = st.floats(0, 1e6)
durations = st.floats(0, 1e3)


@pytest.mark.parametrize("friction", FRICTIONS)
@settings(deadline=None, max_examples=examples(60))
@given(kinetic=energies, first=durations, second=durations)
def test_decay_is_a_flow(friction: Friction, kinetic, first, second):
    """decay(s + t) = decay(s)·decay(t from where s led)."""
    start, s, t = rows_of(kinetic), rows_of(first), rows_of(second)
    half_way = friction.decay(start, s)
    whole = friction.decay(start, s + t)
    parts = half_way * friction.decay(half_way.square() * start, t)
    torch.testing.assert_close(parts, whole, rtol=1e-10, atol=1e-300)
    assert 0 <= float(whole) <= 1


@pytest.mark.parametrize("friction", FRICTIONS)
def test_power_is_what_decay_takes_from_the_energy(friction: Friction):
    """dT/dt = −2ηT at t = 0, and power_slope is its derivative in T; by central differences."""
    kinetic = torch.tensor([0.01, 0.7, 40.0], dtype=torch.float64)
    step = torch.full_like(kinetic, 1e-5)
    ahead = friction.decay(kinetic, step).square() * kinetic
    behind = friction.decay(kinetic, -step).square() * kinetic
    torch.testing.assert_close(
        friction.power(kinetic), (behind - ahead) / (2 * step), rtol=1e-7, atol=0
    )
    torch.testing.assert_close(friction.power(kinetic), 2 * friction.rate(kinetic) * kinetic)
    wiggle = 1e-5 * kinetic
    slope = (friction.power(kinetic + wiggle) - friction.power(kinetic - wiggle)) / (2 * wiggle)
    torch.testing.assert_close(friction.power_slope(kinetic), slope, rtol=1e-7, atol=0)


def test_only_friction_dissipates():
    assert dims.geodesic().conservative
    assert dims.gravitational().conservative
    assert not dims.damped().conservative
    assert not dims.dissipative().conservative


@pytest.mark.parametrize("bad", [-1e-9, -1.0, math.nan, math.inf])
def test_negative_forces_are_refused(bad):
    with pytest.raises(ValueError, match="gravity"):
        dims.gravitational(bad)
    for build in (dims.dissipative, dims.damped):
        with pytest.raises(ValueError, match="gravity"):
            build(bad, 0.1)
        with pytest.raises(ValueError, match="friction"):
            build(1.0, bad)
