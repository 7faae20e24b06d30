"""The motion in a moving metric where it is known: by symmetry, in closed form, by DOP853."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.integrate import simpson, solve_ivp
from torch import Tensor

import dims
from cases import diagonal, slow
from dims.mechanics.metric import moving
from dims.mechanics.solvers.base import Solver

pytestmark = pytest.mark.usefixtures("without_shape_checks")


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


class Quadratic(NamedTuple):
    """L = ½θᵀPθ and the frame in which its curvatures are min(λ, f)."""

    surface: dims.Surface
    frame: Tensor  # F, symmetric
    curvatures: Tensor  # of L̃
    turn: Tensor  # its eigenvectors, the columns

    def lowered(self, vectors: Tensor) -> Tensor:
        return vectors @ torch.linalg.inv(self.frame)


def quadratic(eigenvalues: Tensor, level: float) -> Quadratic:
    turn = torch.linalg.qr(randn(len(eigenvalues), len(eigenvalues), seed=7))[0]
    matrix = turn @ eigenvalues.diag() @ turn.T
    softening = (level / eigenvalues).sqrt().clamp(max=1.0)
    surface = dims.Surface(lambda theta: 0.5 * theta @ matrix @ theta)
    frame = turn @ softening.diag() @ turn.T
    return Quadratic(surface, frame, eigenvalues.clamp(max=level), turn)


def wedge(positions: Tensor, velocities: Tensor) -> Tensor:
    """φ∧φ' = φφ'ᵀ − φ'φᵀ, (T, S, K, K)."""
    product = positions.unsqueeze(-1) * velocities.unsqueeze(-2)
    return product - product.mT


# L̃ = f/2·‖φ‖² in both: as given, or because all directions are softened to the flattest.
ISOTROPIC = {
    "as given": vector(2.0, 2.0, 2.0, 2.0),
    "softened": vector(2.0, 30.0, 500.0, 9000.0),
}


FORCES = {
    "gravity": dims.gravitational(1.0),
    "constant friction": dims.damped(1.0, 0.6),
    "friction by speed": dims.dissipative(1.0, 0.6),
}


@pytest.mark.parametrize(
    ("frame", "forces"), diagonal(["as given", "softened", "refreshed"], list(FORCES))
)
def test_angular_momentum(frame, forces, monkeypatch):
    """In the frame the surface is round: φ∧φ' is conserved, and friction takes exp(−∫η dt) of it.

    Nothing on a quadratic makes a row refresh; where a clock does, F stays the same.
    """
    dynamics, refreshed = FORCES[forces], frame == "refreshed"
    if refreshed:
        monkeypatch.setattr(moving, "_unexplained_turn", lambda before, after, step: step)
    problem = quadratic(ISOTROPIC["softened" if refreshed else frame], level=2.0)
    start, speed = randn(3, 4), 2 * randn(3, 4, seed=1)
    times = torch.linspace(0, 1, 11, dtype=torch.float64)
    path = dims.integrate(
        problem.surface,
        start @ problem.frame,
        speed @ problem.frame,
        dynamics=dynamics,
        solver=dims.Rattle(step=0.02, tolerance=1e-10),
        metric=dims.MovingMetric(turn=0.305),
        max_time=1.0,
        save_at=times,
    )
    assert path.refreshes.tolist() == [4 if refreshed else 1] * 3
    # φ∧φ' is a tensor of the frame, here that of all times.
    found = wedge(problem.lowered(path.positions), problem.lowered(path.velocities))
    friction = dynamics.friction
    rates = torch.zeros_like(path.kinetic_energy)
    if friction is not None:
        rates = friction.rate(path.kinetic_energy)
    for index in (4, 10):
        taken = torch.tensor(simpson(rates[: index + 1], x=times[: index + 1], axis=0))
        kept = (-taken).exp().view(-1, 1, 1) * found[0]
        # Friction that depends on T is split from the rest at second order; all else is exact.
        exact = not isinstance(friction, dims.SpeedFriction)
        torch.testing.assert_close(found[index], kept, rtol=0, atol=1e-9 if exact else 5e-3)
    assert found[0].abs().amax() > 1
    if friction is not None:
        assert taken.min() > 0.3


@pytest.mark.parametrize("refreshed", [False, True], ids=["one frame", "refreshed"])
def test_at_the_default_settings_too(refreshed, monkeypatch):
    if refreshed:
        monkeypatch.setattr(moving, "_unexplained_turn", lambda before, after, step: step)
    problem = quadratic(ISOTROPIC["softened"], level=2.0)
    path = dims.integrate(
        problem.surface,
        randn(3, 4) @ problem.frame,
        2 * randn(3, 4, seed=1) @ problem.frame,
        dynamics=dims.gravitational(1.0),
        metric=dims.MovingMetric(turn=0.5),
        max_time=5.0,
        save_at=[0.0, 5.0],
    )
    found = wedge(problem.lowered(path.positions), problem.lowered(path.velocities))
    assert (found[1] - found[0]).norm() < 1e-2 * found[0].norm()


def test_small_oscillations_with_constant_friction():
    """Where gradients are tiny, φ'' = −κ∇L̃ − ηφ': damped oscillators along the curvatures.

    L = c/2·θᵀPθ with c = 1e-12 and κ = 1/c; curvatures above 4c are softened to it.
    """
    small, rate, time = 1e-12, 0.3, 3.0
    problem = quadratic(small * vector(0.02, 1.0, 9.0, 1e4), level=4 * small)
    start, speed = randn(4), randn(4, seed=1)
    along, pace = start @ problem.turn, speed @ problem.turn
    squares = problem.curvatures / small - rate**2 / 4
    frequency = squares.abs().sqrt()
    cosine = torch.where(squares > 0, torch.cos(frequency * time), torch.cosh(frequency * time))
    sine = torch.where(squares > 0, torch.sin(frequency * time), torch.sinh(frequency * time))
    decayed = math.exp(-rate / 2 * time)
    exact = decayed * (along * cosine + (pace + rate / 2 * along) / frequency * sine)
    assert (squares > 0).tolist() == [False, True, True, True]

    def error(solver: Solver) -> float:
        path = dims.integrate(
            problem.surface,
            start @ problem.frame,
            speed @ problem.frame,
            dynamics=dims.damped(1 / small, rate),
            solver=solver,
            metric=dims.MovingMetric(floor=2.0, flat_curvature=2 * small),
            max_time=time,
        )
        return float((problem.lowered(path.end) @ problem.turn - exact).norm())

    steps = [0.08, 0.04, 0.02]
    order = np.polyfit(np.log(steps), np.log([error(dims.Rattle(step=h)) for h in steps]), 1)[0]
    assert 1.8 < order < 2.2
    assert error(dims.Dopri5(tolerance=1e-8, absolute_factor=1.0)) < 1e-6


STIFF = vector(60.0, 20.0, 0.4, 0.2)


def bumpy() -> dims.Surface:
    """A quadratic of very different curvatures with bumps, one direction of which bends down."""
    turn = torch.linalg.qr(randn(4, 4, seed=3))[0]
    matrix, slope = turn @ STIFF.diag() @ turn.T, randn(4, seed=4)

    def loss(theta: Tensor) -> Tensor:
        return 0.5 * theta @ matrix @ theta - 0.3 * (theta @ slope).cos() + 0.1 * theta.pow(4).sum()

    return dims.Surface(loss)


def softened(surface: dims.Surface, theta: Tensor, level: float) -> Tensor:
    """F by the dense Hessian at θ."""
    values, vectors = torch.linalg.eigh(surface.hessian(theta))
    assert values.abs().min() < level < values.abs().max()
    softening = (level / values.abs()).sqrt().clamp(max=1.0)
    return vectors @ softening.diag() @ vectors.T


def reference(
    surface: dims.Surface,
    dynamics: dims.Dynamics,
    frame: Tensor,
    position: Tensor,
    velocity: Tensor,
    time: float,
) -> tuple[Tensor, Tensor]:
    """φ'' = −(φ'ᵀH̃φ' + κ)·g̃/(1 + ‖g̃‖²) − η·φ' by DOP853 at 1e-12; θ and θ' at the end."""

    def right_hand_side(_: float, state: np.ndarray) -> np.ndarray:
        phi, speed = torch.tensor(state).split(len(position))
        theta, lifted = (position + frame @ phi)[None], (frame @ speed)[None]
        gradient, product = surface.grad_and_hvp(theta, lifted)
        slope = frame @ gradient[0]
        bend = lifted[0] @ product[0] + dynamics.gravity
        force = -bend / (1 + slope @ slope) * slope
        if dynamics.friction is not None:
            kinetic = 0.5 * (speed @ speed + (slope @ speed).square())
            force = force - dynamics.friction.rate(kinetic) * speed
        return torch.cat([speed, force]).numpy()

    first = torch.cat([torch.zeros_like(position), torch.linalg.solve(frame, velocity)])
    solution = solve_ivp(
        right_hand_side, (0.0, time), first.numpy(), method="DOP853", rtol=1e-12, atol=1e-12
    )
    phi, speed = torch.tensor(solution.y[:, -1]).split(len(position))
    return position + frame @ phi, frame @ speed


DYNAMICS = {
    "geodesic": dims.geodesic(),
    "constant friction": dims.damped(0.7, 0.3),
    "friction by speed": dims.dissipative(0.7, 0.3),
}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("geodesic", 4),
        slow("constant friction", 4),
        slow("friction by speed", 4),
        slow("friction by speed", 2),
    ],
)
def test_between_refreshes_it_is_the_motion_with_a_constant_metric(name, rank):
    """With rank 2 the directions come from sweeps; the gap of the spectrum makes them exact."""
    surface, dynamics, time = bumpy(), DYNAMICS[name], 0.4
    position, velocity = 0.2 * randn(4), vector(0.5, -1.0, 0.3, 0.8)
    values = torch.linalg.eigvalsh(surface.hessian(position)).abs().sort(descending=True).values
    level = 4.0 if rank == 4 else float(values[1])
    frame = softened(surface, position, level)
    exact = torch.cat(reference(surface, dynamics, frame, position, velocity, time))

    def error(solver: Solver) -> float:
        path = dims.integrate(
            surface,
            position,
            velocity,
            dynamics=dynamics,
            solver=solver,
            metric=dims.MovingMetric(turn=1e9, rank=rank, floor=2.0, flat_curvature=2.0),
            max_time=time,
        )
        assert path.refreshes.tolist() == [1]
        found = torch.cat([path.end[0], path.velocities[0, 0]])
        return float((found - exact).norm())

    def order(kind: type, long: float, short: float) -> float:
        return math.log(error(kind(step=long)) / error(kind(step=short))) / math.log(long / short)

    assert 1.8 < order(dims.Rattle, 0.02, 0.01) < 2.2
    assert error(dims.Rattle(tolerance=1e-5)) < 1e-3
    assert order(dims.Dopri5, 0.04, 0.01) > 4.5  # more where a leading term happens to cancel
    assert error(dims.Dopri5(tolerance=1e-9, absolute_factor=1.0)) < 1e-7
    # Another metric is another motion.
    how = {"dynamics": dynamics, "solver": "dopri5", "max_time": time}
    plain = dims.integrate(surface, position, velocity, **how)
    assert float((plain.end[0] - exact[:4]).norm()) > 1e-2
