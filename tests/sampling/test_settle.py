"""Settling: stiff modes come to rest, flat ones stay, and nothing else happens."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dims
from cases import first
from dims.sampling import descent
from dims.sampling.certificate import certify
from dims.sampling.settle import Settled, SettleStatus, settle
from problems import deep_linear, snelson, snelson_velocities, sphere, two_basins

GAP = torch.linspace(1.6, 2.9, 40, dtype=torch.float64).unsqueeze(-1)


def rotation(size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(square).Q


def quadratic(curvatures: Tensor, axes: Tensor) -> dims.Surface:
    """½ θᵀHθ with H = Q diag(λ) Qᵀ."""
    return dims.Surface(lambda theta: 0.5 * (curvatures * (axes.T @ theta).square()).sum())


def gap_spread(surface: dims.LossSurface, thetas: Tensor) -> float:
    return float(surface.predict(thetas, GAP).squeeze(-1).std(0).mean())


# Closed forms.


def test_a_mode_of_a_quadratic_keeps_exponential_of_minus_curvature_times_time():
    curvatures = torch.tensor([100.0, 10.0, 3.0, 1.0, 0.1, 0.0], dtype=torch.float64)
    axes = rotation(6)
    amplitudes = torch.tensor([[1.0, -2.0, 0.5, 1.0, 3.0, 2.0], [-1, 1, 1, -1, 1, 1]]).double()
    result = settle(quadratic(curvatures, axes), amplitudes @ axes.T, reduction=1e9, max_time=0.7)
    assert [s.name for s in result.status] == ["TIME_SPENT"] * 2
    assert result.time.tolist() == pytest.approx([0.7, 0.7], rel=2e-3)
    kept = (result.positions @ axes) / amplitudes
    expected = torch.exp(-curvatures * result.time.unsqueeze(-1))
    torch.testing.assert_close(kept, expected, rtol=1e-7, atol=1e-9)


def test_one_damped_newton_step_moves_a_mode_by_its_curvature_over_curvature_plus_damping():
    curvatures = torch.tensor([50.0, 4.0, 1.0, 0.2, 0.01], dtype=torch.float64)
    axes = rotation(5)
    amplitudes = torch.tensor([[1.0, -2.0, 0.5, 1.0, 3.0]], dtype=torch.float64)
    plan = descent.Plan(descent.newton, math.inf, 1e-12, math.inf, 2, 100)
    end = descent.descend(quadratic(curvatures, axes), amplitudes @ axes.T, plan)
    damping = 1 / end.time
    moved = 1 - (end.position @ axes) / amplitudes
    torch.testing.assert_close(moved, (curvatures / (curvatures + damping)).unsqueeze(0))
    assert int(end.evaluations[0]) == 1 + 5 + 1  # start, products, the step


@pytest.mark.parametrize("reach", [descent.flow, descent.newton])
def test_reaches_are_the_time_where_flat_and_the_inverse_curvature_where_stiff(reach):
    curvature = torch.tensor([0.0, 1e-300, 1e9, -1e9], dtype=torch.float64)
    reached = reach(curvature, torch.tensor(2.0, dtype=torch.float64))
    assert reached.tolist() == pytest.approx([2.0, 2.0, 1e-9, 1e-9], rel=1e-6)


def test_stiff_rests_where_it_is_stiff_and_stays_where_it_is_flat_full_does_not():
    curvatures = torch.cat([torch.logspace(5, 2, 10), torch.full((30,), 0.09)]).double()
    axes = rotation(40)
    generator = torch.Generator().manual_seed(1)
    modes = torch.randn(8, 40, generator=generator, dtype=torch.float64)
    modes[:, :10] *= (20 / curvatures[:10]).sqrt()  # rings with an energy of 10 in each
    surface = quadratic(curvatures, axes)
    stiff = settle(surface, modes @ axes.T)
    ends = stiff.positions @ axes
    assert stiff.converged.all()
    reduction = stiff.start_gradient_norm / stiff.gradient_norm
    assert ((reduction >= 100) & (reduction < 200)).all()  # and no further than asked
    energies = [(curvatures * m.square())[:, :10].sum(1) for m in (modes, ends)]
    assert (energies[1] < 0.05 * energies[0]).all()
    torch.testing.assert_close(ends[:, 10:], modes[:, 10:], rtol=0.05, atol=0)
    full = settle(surface, modes @ axes.T, "full")
    assert full.converged.all()
    assert ((full.positions @ axes)[:, 10:].norm(dim=1) < 1e-4).all()


def test_on_the_sphere_a_row_falls_along_its_ray():
    generator = torch.Generator().manual_seed(2)
    starts = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    result = settle(sphere(), starts, "stiff")
    rays = starts / starts.norm(dim=1, keepdim=True)
    torch.testing.assert_close(result.positions, rays, rtol=0, atol=0.05)
    torch.testing.assert_close(
        result.positions / result.positions.norm(dim=1, keepdim=True), rays, rtol=0, atol=1e-9
    )
    radii = settle(sphere(), starts, "full").positions.norm(dim=1)
    torch.testing.assert_close(radii, torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-6)


def test_on_deep_linear_a_row_ends_where_gradient_flow_does():
    """Euler with tiny steps is the oracle; θ scaled to w₁w₂w₃ = 1 would be half the way off."""
    starts = torch.tensor([[1.5, 0.9, 1.2], [0.4, 2.0, 2.0], [-1.0, -1.5, 0.8]]).double()
    result = settle(deep_linear(), starts, "stiff")
    assert result.converged.all()
    for start, end, norm in zip(starts, result.positions, result.gradient_norm, strict=True):
        theta, slope = start, torch.tensor(torch.inf)
        while slope > norm:
            slopes = 8 * (theta.prod() - 1) * theta.prod() / theta  # ∇ 4(w₁w₂w₃ − 1)²
            theta, slope = theta - 1e-4 * slopes, slopes.norm()
        assert (end - theta).norm() < 0.1 * (start - theta).norm()


def test_every_row_of_two_basins_reaches_the_bottom_of_its_own():
    roots = np.sort(np.roots([4, 0, -4, 0.25]).real)  # of d/dθ₁: well, barrier, well
    starts = torch.tensor([[-2.0, 1.0], [-0.3, -2.0], [0.4, 0.5], [1.7, 3.0]], dtype=torch.float64)
    result = settle(two_basins(), starts, "full")
    assert result.converged.all()
    assert (result.gradient_norm <= 1e-6 * (1 + result.loss.abs())).all()
    expected = [roots[0], roots[0], roots[2], roots[2]]
    assert result.positions[:, 0].tolist() == pytest.approx(expected, abs=1e-6)
    assert result.positions[:, 1].tolist() == pytest.approx([0] * 4, abs=1e-5)


def test_full_finds_the_bottom_of_a_bent_valley():
    """Rosenbrock in ten dimensions, one minimum of value 0 at (1, …, 1) near these starts."""

    def rosenbrock(theta: Tensor) -> Tensor:
        bend = theta[1:] - theta[:-1].square()
        return (100 * bend.square() + (1 - theta[:-1]).square()).sum()

    generator = torch.Generator().manual_seed(3)
    starts = 1 + 0.5 * torch.randn(5, 10, generator=generator, dtype=torch.float64)
    result = settle(dims.Surface(rosenbrock), starts, "full")
    assert result.converged.all()
    torch.testing.assert_close(result.positions, torch.ones_like(starts), rtol=0, atol=1e-5)


def test_negative_curvature_is_left_downhill():
    """½x² − ½y² + ¼y⁴: a Newton step from here would climb back to the saddle at the origin."""

    def loss(theta: Tensor) -> Tensor:
        return 0.5 * theta[0].square() - 0.5 * theta[1].square() + 0.25 * theta[1] ** 4

    starts = torch.tensor([[1.0, 1e-3], [0.1, -1e-3]], dtype=torch.float64)
    ends = settle(dims.Surface(loss), starts, "full").positions
    torch.testing.assert_close(
        ends, torch.tensor([[0.0, 1.0], [0.0, -1.0]], dtype=torch.float64), rtol=0, atol=1e-5
    )


def test_a_row_at_a_minimum_does_not_move():
    start = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    result = settle(sphere(), start)
    assert torch.equal(result.positions, start)
    assert result.displacement.tolist() == [0.0]
    assert result.evaluations.tolist() == [1]
    assert result.status == [SettleStatus.SETTLED]


def test_displacement_and_losses_are_those_of_the_positions():
    starts = torch.tensor([[2.0, 0.5], [-1.5, 1.0]], dtype=torch.float64)
    result = settle(two_basins(), starts)
    torch.testing.assert_close(result.displacement, (result.positions - starts).norm(dim=1))
    loss, gradient = two_basins().value_and_grad(result.positions)
    torch.testing.assert_close(result.loss, loss)
    torch.testing.assert_close(result.gradient_norm, gradient.norm(dim=1))
    torch.testing.assert_close(result.start_loss, two_basins().value(starts))


# Rows on their own.


def test_a_broken_row_keeps_its_start_and_takes_no_other_along():
    starts = torch.tensor([[2.0, 0.5], [math.nan, 1.0], [-1.5, 1.0]], dtype=torch.float64)
    result = settle(two_basins(), starts)
    assert [s.name for s in result.status] == ["SETTLED", "NOT_FINITE", "SETTLED"]
    assert result.converged.tolist() == [True, False, True]
    assert torch.equal(result.positions[1], starts[1]) or result.positions[1].isnan()[0]
    alone = settle(two_basins(), starts[[0, 2]])
    torch.testing.assert_close(result.positions[[0, 2]], alone.positions)


def test_steps_out_of_the_domain_are_refused():
    """θ − log θ: from 1e-3 the first guesses land where the logarithm is not defined or far off."""
    surface = dims.Surface(lambda theta: (theta - theta.log()).sum())
    starts = torch.tensor([[1e-3, 5.0], [3.0, 0.2]], dtype=torch.float64)
    result = settle(surface, starts, "full")
    assert result.converged.all()
    torch.testing.assert_close(result.positions, torch.ones_like(starts), rtol=0, atol=1e-5)


def test_a_step_to_a_lower_loss_without_a_gradient_is_refused():
    """Below zero this is 0, but autograd multiplies the derivative of √θ by zero: NaN."""
    surface = dims.Surface(lambda theta: torch.where(theta > 0, theta.sqrt(), 0.0).sum())
    result = settle(surface, torch.tensor([[0.3]], dtype=torch.float64), max_evaluations=100)
    assert result.gradient_norm.isfinite().all()
    assert (result.positions > 0).all()


def test_time_runs_out_at_rest_across_a_bent_valley():
    """At the floor y = x² the gradient is that of ½·0.1·(x − 3)² alone, along the valley."""

    def loss(theta: Tensor) -> Tensor:
        return 0.5e5 * (theta[1] - theta[0].square()).square() + 0.05 * (theta[0] - 3).square()

    start = torch.tensor([[0.0, 0.001]], dtype=torch.float64)
    result = settle(dims.Surface(loss), start, reduction=1e9, max_time=4.0)
    assert result.status == [SettleStatus.TIME_SPENT]
    x = float(result.positions[0, 0])
    assert 0.3 < x < 1.2
    floor = 0.1 * (3 - x) / math.hypot(1, 2 * x)
    assert float(result.gradient_norm[0]) == pytest.approx(floor, rel=0.2)


def test_rows_do_not_depend_on_their_neighbours():
    generator = torch.Generator().manual_seed(4)
    curvatures = torch.logspace(4, -1, 40).double()
    surface = quadratic(curvatures, rotation(40))
    starts = torch.randn(5, 40, generator=generator, dtype=torch.float64)
    starts[0] *= 100
    together = settle(surface, starts)
    for i in range(5):
        alone = settle(surface, starts[i : i + 1])
        torch.testing.assert_close(together.positions[i], alone.positions[0], rtol=1e-6, atol=1e-9)
        assert int(together.evaluations[i]) == int(alone.evaluations[0])


@pytest.mark.parametrize("method", ["stiff", "full"])
@pytest.mark.parametrize(
    "loss",
    [
        lambda theta: theta.sum(),
        lambda theta: -(theta.square().sum()),
        lambda theta: theta.abs().sum(),
        lambda theta: (-theta.square().sum()).exp(),
    ],
    ids=["linear", "unbounded", "kink", "no minimum"],
)
def test_hopeless_surfaces_come_to_an_end(loss, method):
    starts = torch.tensor([[0.3, -0.7], [2.0, 1.0]], dtype=torch.float64)
    result = settle(dims.Surface(loss), starts, method, max_evaluations=100)
    assert (result.loss <= result.start_loss).all()
    assert (result.evaluations <= 100 + 40).all()  # one more model and its tries
    assert all(status.advice for status in result.status)


def test_a_spent_budget_is_said_and_what_was_reached_is_kept():
    curvatures = torch.logspace(4, -1, 40).double()
    starts = torch.ones(1, 40, dtype=torch.float64)
    result = settle(quadratic(curvatures, rotation(40)), starts, "full", max_evaluations=20)
    assert result.status == [SettleStatus.BUDGET_SPENT]
    assert not SettleStatus.BUDGET_SPENT.ok
    assert result.loss[0] < 0.5 * result.start_loss[0]


# Precision.


@pytest.mark.parametrize("method", ["stiff", "full"])
def test_float32_stays_float32_and_row_scalars_are_float64(method):
    starts = torch.tensor([[1.5, 0.9, 1.2], [0.4, 2.0, 2.0]])
    result = settle(deep_linear(), starts, method)
    assert result.positions.dtype == torch.float32
    for scalars in (result.loss, result.gradient_norm, result.displacement, result.time):
        assert scalars.dtype == torch.float64
    assert (result.gradient_norm <= result.start_gradient_norm / 100).all()


def test_float32_says_when_it_can_go_no_further():
    """1e4·(θ² − 2)²: beside √2 the next float32 has a slope of 6e-3, above the goal of 1e-6."""
    surface = dims.Surface(lambda theta: 1e4 * (theta.square() - 2).square().sum())
    result = settle(surface, torch.tensor([[1.0], [2.5]]), "full")
    assert [s.name for s in result.status] == ["STALLED"] * 2
    assert result.positions.flatten().tolist() == pytest.approx([2**0.5] * 2, abs=1e-6)


def test_float32_goes_far_enough_for_its_steps_to_be_heard():
    """A step of 1/λ_max would gain 1e-6 on a loss that is known to 1e-3."""
    curvatures = torch.tensor([1e6, 1.0, 1.0])
    surface = dims.Surface(lambda theta: 1000 + 0.5 * (curvatures * theta.square()).sum())
    result = settle(surface, torch.tensor([[1e-7, 1.0, -1.0]]))
    assert result.status == [SettleStatus.SETTLED]
    assert (result.positions.abs() < 0.05).all()


# Networks.


def regression(dtype: torch.dtype = torch.float64, prior: float = 0.1) -> dims.LossSurface:
    """Linear regression on 3 points in 6 dimensions: three modes are bent by the prior alone."""
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(3, 6, generator=generator, dtype=torch.float64).to(dtype)
    model = nn.Linear(6, 1, bias=False).to(dtype)
    return dims.LossSurface(model, (inputs, inputs.sum(1)), dims.Gaussian(0.01), prior)


def test_by_default_a_flat_mode_of_a_network_keeps_nine_tenths():
    surface = regression()
    curvatures, axes = torch.linalg.eigh(surface.hessian(surface.initial))
    assert curvatures[:3].tolist() == pytest.approx([0.1] * 3, rel=1e-9)
    bottom = settle(surface, surface.initial.unsqueeze(0), "full").positions[0]
    amplitudes = torch.tensor([[3.0, -2.0, 1.0, 0, 0, 0]], dtype=torch.float64)  # nothing rings
    result = settle(surface, bottom + amplitudes @ axes.T)
    assert result.status == [SettleStatus.TIME_SPENT]
    assert SettleStatus.TIME_SPENT.ok
    kept = ((result.positions - bottom) @ axes)[0, :3] / amplitudes[0, :3]
    assert kept.tolist() == pytest.approx([math.exp(-0.1)] * 3, rel=1e-3)
    further = settle(surface, bottom + amplitudes @ axes.T, max_time=math.inf)
    assert further.converged.all()
    assert (((further.positions - bottom) @ axes)[0, :3].abs() < 0.05).all()


@pytest.mark.data
@pytest.mark.parametrize("dtype", first([torch.float64, torch.float32]))
def test_short_snelson_trajectories_come_to_rest(dtype):
    surface, factor = snelson(dtype)
    velocities = snelson_velocities(factor, 3).to(dtype)
    path = dims.integrate(surface, surface.initial, velocities, max_time=0.02)
    result = settle(surface, path.end, "stiff")
    assert (result.loss < result.start_loss).all()
    assert result.converged.all()
    assert (result.gradient_norm <= result.start_gradient_norm / 100).all()
    assert (result.displacement < 0.05 * path.end.norm(dim=1)).all()


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_fifty_snelson_draws_rest_and_keep_their_spread():
    surface, factor = snelson()
    velocities = snelson_velocities(factor, 50)
    path = dims.integrate(surface, surface.initial, velocities, max_time=50.0)
    spread = gap_spread(surface, path.end)

    def ratio(result: Settled) -> float:
        return gap_spread(surface, result.positions) / spread

    stiff = settle(surface, path.end, "stiff")
    assert all(status.ok for status in stiff.status)
    assert (stiff.loss <= stiff.start_loss).all()
    assert ratio(stiff) >= 0.9
    unlimited = settle(surface, path.end, "stiff", max_time=math.inf)
    assert (unlimited.loss <= unlimited.start_loss).all()
    assert (unlimited.gradient_norm <= unlimited.start_gradient_norm / 100).all()
    full = settle(surface, path.end, "full")
    assert (full.gradient_norm < 1e-6 * (1 + full.loss.abs())).all()
    assert full.loss.mean() < stiff.loss.mean()


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"method": "soft"}, "method"),
        ({"reduction": 1.0}, "reduction"),
        ({"max_time": 0.0}, "max_time"),
        ({"max_time": math.nan}, "max_time"),
        ({"max_evaluations": 0}, "max_evaluations"),
        ({"method": "full", "max_time": 1.0}, "max_time"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        settle(sphere(), torch.ones(1, 2), **arguments)


@pytest.mark.parametrize("function", [settle, certify])
def test_bad_rows_are_refused(function):
    with pytest.raises(ValueError, match="thetas"):
        function(sphere(), torch.ones(3))
    with pytest.raises(TypeError, match="surface"):
        function(lambda theta: theta.sum(), torch.ones(1, 3))
