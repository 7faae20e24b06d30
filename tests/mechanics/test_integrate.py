"""What `integrate` takes, returns and refuses; its Runge–Kutta method against torchdiffeq."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import dims
from cases import first, slow

SOLVERS = ["rattle", "dopri5"]


def row(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def loss(theta: Tensor) -> Tensor:
    return theta.square().sum() + 0.3 * theta.prod().sin() + 0.2 * theta[0].cos()


START, VELOCITY = row(1.0, 0.5), row(0.3, -1.0)


@pytest.mark.parametrize(
    "dynamics",
    first(
        [
            dims.dissipative(0.7, 0.3),
            dims.geodesic(),
            dims.gravitational(0.7),
            dims.damped(0.7, 0.3),
        ]
    ),
)
def test_dopri5_is_that_of_torchdiffeq(dynamics):
    odeint = pytest.importorskip("torchdiffeq").odeint
    gravity = dynamics.gravity
    rates = {
        dims.damped(0.7, 0.3): lambda kinetic: 0.3,
        dims.dissipative(0.7, 0.3): lambda kinetic: 0.3 * kinetic.sqrt(),
    }
    rate = rates.get(dynamics, lambda kinetic: 0.0)

    def motion(_, state: Tensor) -> Tensor:
        theta, v = state[:2], state[2:]
        gradient = torch.func.jacrev(loss)(theta)
        hessian = torch.func.jacrev(torch.func.jacrev(loss))(theta)
        kinetic = 0.5 * (v @ v + (gradient @ v) ** 2)
        pull = (v @ hessian @ v + gravity) / (1 + gradient @ gradient)
        return torch.cat([v, -pull * gradient - rate(kinetic) * v])

    times = row(0.0, 0.5, 1.5)
    start = torch.cat([START, VELOCITY])
    theirs = odeint(motion, start, times, method="dopri5", rtol=1e-9, atol=1e-9)
    ours = dims.integrate(
        dims.Surface(loss),
        START,
        VELOCITY,
        dynamics=dynamics,
        solver=dims.Dopri5(tolerance=1e-9, absolute_factor=1.0),
        save_at=times,
        max_time=1.5,
    )
    torch.testing.assert_close(ours.positions[:, 0], theirs[:, :2], rtol=0, atol=1e-7)
    torch.testing.assert_close(ours.velocities[:, 0], theirs[:, 2:], rtol=0, atol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_vector_is_one_row(solver):
    path = dims.integrate(dims.Surface(loss), START, VELOCITY, solver=solver, max_time=0.3)
    assert path.positions.shape == path.velocities.shape == (1, 1, 2)
    assert path.loss.shape == path.energy.shape == path.dissipated.shape == (1, 1)
    assert path.end.shape == (1, 2)
    assert path.end_time.shape == path.steps.shape == path.arc_length.shape == (1,)
    assert path.times.tolist() == [0.3]
    assert path.status == [dims.Status.FINISHED]


def test_a_position_serves_many_velocities_and_the_other_way_round():
    surface, several = dims.Surface(loss), randn(3, 2)
    options = {"max_time": 0.3}
    together = dims.integrate(surface, START, several, **options)
    assert together.end.shape == (3, 2)
    repeated = dims.integrate(surface, START.repeat(3, 1), several, **options)
    assert torch.equal(together.end, repeated.end)
    from_many = dims.integrate(surface, several, VELOCITY, **options)
    repeated = dims.integrate(surface, several, VELOCITY.repeat(3, 1), **options)
    assert torch.equal(from_many.end, repeated.end)


def test_the_default_is_dims():
    surface = dims.Surface(loss)
    plain = dims.integrate(surface, START, VELOCITY, max_time=0.3)
    named = dims.integrate(
        surface,
        START,
        VELOCITY,
        dynamics=dims.dissipative(gravity=1.0, friction=0.1),
        solver="rattle",
        max_time=0.3,
    )
    assert torch.equal(plain.end, named.end)
    assert plain.dynamics == named.dynamics


@pytest.mark.parametrize(("solver", "atol"), [slow(dims.Rattle(1e-4), 5e-3), (dims.Dopri5(), 5e-5)])
@pytest.mark.usefixtures("unchecked")
def test_saved_states_are_those_of_runs_that_end_there(solver, atol):
    surface, velocities = dims.Surface(loss), randn(3, 2)
    times = [0.0, 0.2, 0.7, 1.1]
    options = {"dynamics": dims.dissipative(1.0, 0.3), "solver": solver}
    path = dims.integrate(surface, START, velocities, save_at=times, max_time=1.5, **options)
    assert path.times.tolist() == times
    assert path.positions.shape == (4, 3, 2)
    assert torch.equal(path.positions[0], START.expand(3, -1))
    torch.testing.assert_close(path.velocities[0], velocities)
    torch.testing.assert_close(path.energy[0], path.start_energy)
    assert path.dissipated[0].tolist() == [0.0] * 3
    assert path.end_time.tolist() == [1.5] * 3
    assert torch.equal(path.end, path.positions[-1])
    for index, time in enumerate(times[1:], 1):
        until = dims.integrate(surface, START, velocities, max_time=time, **options)
        for name in ("positions", "velocities", "loss", "energy", "dissipated"):
            torch.testing.assert_close(
                getattr(path, name)[index], getattr(until, name)[0], rtol=0, atol=atol
            )


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_row_that_ends_early_stays_where_it_ended(solver):
    starts = torch.stack([torch.zeros(2, dtype=torch.float64), row(2.0, 0.0)])
    path = dims.integrate(
        dims.Surface(lambda theta: theta.square().sum()),
        starts,
        torch.zeros_like(starts),
        solver=solver,
        stop=dims.AtRest(),
        save_at=torch.tensor([0.5, 1.0, 2.0]),
        max_time=2.0,
    )
    assert path.status == [dims.Status.AT_REST, dims.Status.FINISHED]
    assert torch.equal(path.positions[:, 0], torch.zeros(3, 2, dtype=torch.float64))
    assert path.dissipated[:, 0].tolist() == [0.0] * 3
    assert (path.positions[:, 1, 0].diff() < 0).all()


@pytest.mark.parametrize(
    ("solver", "dynamics"),
    [
        ("rattle", dims.damped(0.7, 0.3)),
        slow("rattle", dims.dissipative(0.7, 0.3)),
        slow("dopri5", dims.damped(0.7, 0.3)),
        slow("dopri5", dims.dissipative(0.7, 0.3)),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_numbers_of_a_path_against_their_definitions(solver, dynamics):
    """Energies by autograd at the saved states; integrals by sums over a fine grid of them."""
    surface, velocities = dims.Surface(loss), randn(2, 2)
    times = torch.linspace(0, 0.8, 33, dtype=torch.float64)
    path = dims.integrate(
        surface, START, velocities, dynamics=dynamics, solver=solver, save_at=times, max_time=0.8
    )
    flat = path.positions.reshape(-1, 2)
    values = torch.stack([loss(theta) for theta in flat]).reshape(33, 2)
    slopes = torch.stack([torch.func.jacrev(loss)(theta) for theta in flat]).reshape(33, 2, 2)
    climb = (slopes * path.velocities).sum(-1)
    kinetic = 0.5 * (path.velocities.square().sum(-1) + climb.square())
    torch.testing.assert_close(path.loss, values)
    torch.testing.assert_close(path.gradient_norm, slopes.norm(dim=-1))
    torch.testing.assert_close(path.kinetic_energy, kinetic)
    torch.testing.assert_close(path.energy, kinetic + 0.7 * values)
    torch.testing.assert_close(path.end_energy, path.energy[-1])
    torch.testing.assert_close(path.start_kinetic_energy, kinetic[0])
    torch.testing.assert_close(
        path.energy_balance, path.energy[0] - path.energy[-1] - path.dissipated[-1]
    )
    speed_dependent = dynamics == dims.dissipative(0.7, 0.3)
    power = 2 * 0.3 * kinetic ** (1.5 if speed_dependent else 1.0)
    lost = torch.trapezoid(power, times, dim=0)
    torch.testing.assert_close(path.dissipated[-1], lost, rtol=1e-3, atol=0)
    lifted = torch.cat([path.positions, values.unsqueeze(-1)], -1)
    chords = lifted.diff(dim=0).norm(dim=-1).sum(0)
    torch.testing.assert_close(path.arc_length, chords, rtol=2e-3, atol=0)
    assert (path.lowest_loss <= values.amin(0) + 1e-9).all()
    assert (path.lowest_kinetic_energy <= kinetic.amin(0) + 1e-9).all()
    assert (path.evaluations > path.steps).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_single_precision(solver):
    surface = dims.Surface(loss)
    options = {"solver": solver, "max_time": 1.0}
    if solver == "dopri5":
        options["tolerance"] = 1e-5
    exact = dims.integrate(surface, START, VELOCITY, **options)
    path = dims.integrate(surface, START.float(), VELOCITY.float(), **options)
    assert path.status == [dims.Status.FINISHED]
    assert path.positions.dtype == path.velocities.dtype == torch.float32
    assert path.energy.dtype == path.loss.dtype == path.end_time.dtype == torch.float64
    torch.testing.assert_close(path.end.double(), exact.end, rtol=0, atol=5e-3)
    assert float(path.energy_violation) < 1e-2


def test_the_given_tensors_are_left_alone():
    start, velocity = START.clone().requires_grad_(), VELOCITY.clone().requires_grad_()
    path = dims.integrate(dims.Surface(loss), start, velocity, max_time=0.5)
    assert torch.equal(start, START)
    assert torch.equal(velocity, VELOCITY)
    assert start.grad is None
    assert not path.end.requires_grad
    assert not torch.equal(path.end[0], START)


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"position": row(1.0, math.nan)}, ValueError, "position: contains NaN or infinite"),
        ({"position": row(1.0, math.inf)}, ValueError, "position: contains NaN or infinite"),
        ({"velocity": row(math.nan, 0.0)}, ValueError, "velocity: contains NaN or infinite"),
        ({"velocity": row(-math.inf, 0.0)}, ValueError, "velocity: contains NaN or infinite"),
        ({"velocity": row(1.0, 2.0, 3.0)}, ValueError, "velocity: 3 parameters, .* has 2"),
        (
            {"position": randn(2, 2), "velocity": randn(3, 2)},
            ValueError,
            "velocity: 3 rows, but 2 positions",
        ),
        ({"position": torch.tensor(1.0)}, ValueError, r"position: expected shape \(K,\)"),
        ({"velocity": randn(1, 1, 2)}, ValueError, r"velocity: expected shape \(K,\)"),
        ({"velocity": randn(0, 2), "position": randn(0, 2)}, ValueError, "position: no rows"),
        ({"position": row(), "velocity": row()}, ValueError, "position: expected shape"),
        ({"position": torch.tensor([1, 2])}, TypeError, "position: .*floating-point"),
        ({"velocity": torch.tensor([1, 2])}, TypeError, "velocity: .*floating-point"),
        ({"velocity": VELOCITY.float()}, TypeError, r"velocity: torch\.float32"),
        ({"position": [1.0, 2.0]}, TypeError, "position: expected a tensor, got list"),
        ({"max_time": 0.0}, ValueError, "max_time"),
        ({"max_time": -1.0}, ValueError, "max_time"),
        ({"max_time": math.nan}, ValueError, "max_time"),
        ({"max_time": math.inf}, ValueError, "max_time"),
        ({"max_evaluations": 0}, ValueError, "max_evaluations"),
        ({"tolerance": -1e-3}, ValueError, "tolerance"),
        ({"tolerance": 0.0}, ValueError, "tolerance"),
        ({"tolerance": 1.0}, ValueError, "tolerance"),
        ({"tolerance": math.nan}, ValueError, "tolerance"),
        ({"solver": "dopri5", "tolerance": -1e-3}, ValueError, "tolerance"),
        ({"solver": "euler"}, ValueError, "solver: 'euler' is unknown; there are rattle, dopri5"),
        ({"solver": dims.Rattle(), "tolerance": 1e-3}, ValueError, "tolerance: give it to the"),
        ({"save_at": [0.5, 0.2]}, ValueError, "save_at: times must be increasing"),
        ({"save_at": [0.5, 0.5]}, ValueError, "save_at: times must be increasing"),
        ({"save_at": [-0.1, 0.5]}, ValueError, "save_at: .*not negative"),
        ({"save_at": [0.1, math.nan]}, ValueError, "save_at"),
        ({"save_at": [0.5, 1.5]}, ValueError, "save_at: ends at 1.5, after max_time 1.0"),
        ({"save_at": []}, ValueError, "save_at: expected a list"),
        ({"save_at": randn(2, 2)}, ValueError, "save_at: expected a list"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_named(change, error, named):
    options = {"position": START, "velocity": VELOCITY, "max_time": 1.0, **change}
    with pytest.raises(error, match=named):
        dims.integrate(dims.Surface(loss), **options)


@pytest.mark.parametrize("solver", [dims.Rattle, dims.Dopri5])
@pytest.mark.parametrize("options", [{"tolerance": -1.0}, {"tolerance": 2.0}, {"step": 0.0}])
def test_solvers_refuse_bad_settings(solver, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}: must"):
        solver(**options)


@pytest.mark.parametrize("solver", SOLVERS)
def test_functions_that_are_no_loss_are_refused(solver):
    for function, reason in (
        (lambda theta: theta.square(), "scalar"),
        (lambda theta: theta.detach().sum(), "differentiably"),
    ):
        with pytest.raises(ValueError, match=f"function: .*{reason}"):
            dims.integrate(dims.Surface(function), START, VELOCITY, solver=solver)
