"""What is reported of a motion in a moving metric: energies, lengths, velocities, costs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import dims
import problems

pytestmark = pytest.mark.usefixtures("without_shape_checks")


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


SURFACE = problems.ring()
POSITION = torch.tensor([1.0, 0.0], dtype=torch.float64)
METRIC = dims.MovingMetric(turn=1.0, flat_curvature=0.1)


@pytest.fixture(scope="module", params=["rattle", pytest.param("dopri5", marks=pytest.mark.slow)])
def path(request: pytest.FixtureRequest) -> dims.Trajectories:
    """Saved so densely that sums over the saved states are integrals."""
    how = {"tolerance": 1e-5} if request.param == "dopri5" else {}
    found = dims.integrate(
        SURFACE,
        POSITION,
        randn(4, 2),
        solver=request.param,
        metric=METRIC,
        save_at=torch.linspace(0, 1, 51),
        max_time=1.0,
        **how,
    )
    assert found.refreshes.max() > 1
    return found


def test_energies_at_saved_times_fall_by_what_friction_took(path):
    torch.testing.assert_close(path.energy, path.kinetic_energy + path.loss)
    torch.testing.assert_close(path.energy[0], path.start_energy)
    torch.testing.assert_close(path.kinetic_energy[0], path.start_kinetic_energy)
    torch.testing.assert_close(path.energy[-1], path.end_energy)
    left = path.energy[0] - path.lowest_loss
    assert (path.energy.diff(dim=0) < 1e-3 * left).all()
    lost = path.energy[0] - path.energy
    assert ((lost - path.dissipated).abs() < 2e-2 * left).all()
    # T is larger than that of the same velocity in the euclidean metric: M ⪰ I.
    _, slopes = SURFACE.value_and_grad(path.positions.flatten(0, 1))
    climb = (slopes.view_as(path.velocities) * path.velocities).sum(-1)
    plain = 0.5 * (path.velocities.square().sum(-1) + climb.square())
    assert (path.kinetic_energy > plain * (1 - 1e-6)).all()
    assert (path.kinetic_energy > 1.2 * plain).any()


def test_the_arc_length_is_that_of_the_lifted_curve(path):
    """A polygon through the saved points (θ, L)."""
    pieces = torch.cat([path.positions, path.loss.unsqueeze(-1)], dim=-1).diff(dim=0)
    polygon = pieces.norm(dim=-1).sum(0)
    torch.testing.assert_close(path.arc_length, polygon, rtol=1e-2, atol=0)


def test_the_length_in_the_metric_is_the_integral_of_its_speed(path):
    speed = (2 * path.kinetic_energy).sqrt()
    integral = torch.trapezoid(speed, path.times, dim=0)
    torch.testing.assert_close(path.metric_length, integral, rtol=1e-2, atol=0)
    assert (path.metric_length >= path.arc_length * (1 - 1e-6)).all()
    assert (path.metric_length > 1.05 * path.arc_length).any()


def test_velocities_are_those_of_the_positions(path):
    """θ' by differences of saved positions, away from the kinks at a refresh."""
    slopes = (path.positions[2:] - path.positions[:-2]) / (path.times[2:] - path.times[:-2]).view(
        -1, 1, 1
    )
    errors = (slopes - path.velocities[1:-1]).norm(dim=-1)
    sizes = path.velocities[1:-1].norm(dim=-1)
    assert (errors / sizes).median() < 1e-2


def test_energies_on_a_quadratic_are_those_of_the_known_metric():
    """T = ½(‖F⁻¹θ'‖² + (gᵀθ')²) at every saved state, with F from the dense matrix."""
    turn = torch.linalg.qr(randn(5, 5))[0]
    values = torch.tensor([1.0, 3.0, 40.0, 500.0, 6e3], dtype=torch.float64)
    matrix = turn @ values.diag() @ turn.T
    inverse = turn @ (values / 10).sqrt().clamp(min=1.0).diag() @ turn.T  # c·δ = 10
    path = dims.integrate(
        dims.Surface(lambda theta: 0.5 * theta @ matrix @ theta),
        randn(5) @ torch.linalg.inv(inverse),
        randn(3, 5, seed=1) @ torch.linalg.inv(inverse),
        metric=dims.MovingMetric(flat_curvature=1.0, floor=10.0),
        save_at=[0.0, 0.5, 1.0],
        max_time=1.0,
    )
    inside, slopes = path.velocities @ inverse, path.positions @ matrix
    climb = (slopes * path.velocities).sum(-1)
    wanted = 0.5 * (inside.square().sum(-1) + climb.square())
    torch.testing.assert_close(path.kinetic_energy, wanted, rtol=1e-6, atol=1e-9)


def test_in_the_euclidean_metric_nothing_changes():
    how = {"max_time": 1.0, "save_at": [0.0, 1.0]}
    plain = dims.integrate(SURFACE, POSITION, randn(3, 2), **how)
    named = dims.integrate(SURFACE, POSITION, randn(3, 2), metric="euclidean", **how)
    assert torch.equal(plain.positions, named.positions)
    assert torch.equal(plain.metric_length, plain.arc_length)
    assert torch.equal(plain.gradient_equivalents, plain.evaluations.double())
    assert plain.refreshes.tolist() == [0] * 3


def test_stop_conditions_see_the_gradient_of_the_loss():
    """‖∇L‖ in the rule is that of θ, whatever the frame: the end is where it falls below."""
    matrix = torch.tensor([1.0, 1e4], dtype=torch.float64)
    surface = dims.Surface(lambda theta: 0.5 * (matrix * theta.square()).sum())
    seen: list[Tensor] = []

    def flat(time: Tensor, loss: Tensor, kinetic: Tensor, norm: Tensor) -> Tensor:
        seen.append(norm)
        return norm < 1e-3

    path = dims.integrate(
        surface,
        torch.tensor([0.5, 0.02], dtype=torch.float64),
        torch.zeros(2, dtype=torch.float64),
        dynamics=dims.damped(1.0, 1.0),
        metric=dims.MovingMetric(floor=1.0, flat_curvature=1.0),
        stop=flat,
        max_time=100.0,
    )
    assert path.status == [dims.Status.AT_REST]
    assert float(path.gradient_norm) < 1e-3 * (1 + 1e-6)
    # At the start the gradient is (0.5, 200), in the frame (0.5, 2).
    assert 100 < float(seen[0]) < 201


def test_refreshes_are_counted_in_gradients(monkeypatch):
    """Seconds of every frame, the first one too, over those of a gradient of one row.

    The clock ticks once with every look at it.
    """
    now = iter(range(10**6))
    monkeypatch.setattr("dims.mechanics.clock.time.process_time", lambda: float(next(now)))
    refresh, sizes = dims.MovingMetric.refresh, []

    def watched(self, *arguments):
        state, rows = refresh(self, *arguments)
        sizes.extend([len(rows)] if len(rows) else [])
        return state, rows

    monkeypatch.setattr(dims.MovingMetric, "refresh", watched)
    path = dims.integrate(SURFACE, POSITION, randn(4, 2), metric=METRIC, max_time=1.0)
    # A gradient of four rows takes one second, so 0.25 a row; the first frame one for all four.
    extra = path.gradient_equivalents - path.evaluations
    never = path.refreshes == 1
    assert never.any()
    torch.testing.assert_close(extra[never], torch.ones_like(extra[never]))
    # Every second of a refresh is in the ledgers of its rows.
    assert sizes
    torch.testing.assert_close(extra.sum(), torch.tensor(4.0 + 4 * len(sizes)).double())
    assert (extra[~never] > 1).all()
