"""How the frame of a row is chosen, beside dense matrices; what fits the memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.mechanics.metric.choice import Choice
from dims.mechanics.metric.frame import Frame
from dims.sampling.samplers import Start

GIGABYTE = 2**30


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(prior: float | Tensor = 0.5, points: int = 20, **more) -> dims.LossSurface:
    torch.manual_seed(0)
    inputs = torch.linspace(-1, 1, points, dtype=torch.float64).unsqueeze(-1)
    model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    return dims.LossSurface(model, (inputs, (3 * inputs).sin()), dims.Gaussian(0.1), prior, **more)


def choice(surface: dims.Surface | dims.LossSurface, **settings) -> Choice:
    metric = dims.MovingMetric(**settings)
    return metric._choice(surface)


def ggn(surface: dims.LossSurface, theta: Tensor) -> Tensor:
    """JᵀJ/σ² + δ of one output, by automatic differentiation."""

    def outputs(theta: Tensor) -> Tensor:
        return surface.network(surface.vector.unflatten(theta), surface.data.inputs).squeeze(-1)

    jacobian = torch.autograd.functional.jacobian(outputs, theta)
    scale = surface.loss_scale * surface.effective_points / surface.points
    prior = surface.prior_precision * torch.ones(surface.size, dtype=torch.float64)
    likelihood = scale * jacobian.T @ jacobian / surface.likelihood.noise_std**2
    return likelihood + surface.loss_scale * prior.diag()


def dense_frame(frame: Frame, row: int = 0) -> Tensor:
    size = frame.basis.shape[-1]
    one = Frame(*(getattr(frame, name)[row : row + 1] for name in frame.__dataclass_fields__))
    many = {name: getattr(one, name) for name in one.__dataclass_fields__}
    many = {name: value.expand(size, *value.shape[1:]) for name, value in many.items()}
    return Frame(**many).lift(torch.eye(size, dtype=torch.float64)).T


def layers_prior(surface: dims.LossSurface) -> Tensor:
    """One precision for the first layer, another for the second."""
    prior = torch.full((surface.size,), 0.5, dtype=torch.float64)
    prior[-5:] = 8.0
    return prior


@pytest.mark.parametrize("by_layer", [False, True], ids=["one prior", "a prior for each layer"])
@pytest.mark.parametrize("rank", [13, 6], ids=["dense", "sweeps"])
def test_in_the_frame_curvatures_are_at_most_the_level(by_layer, rank):
    """FᵀPF has the eigenvalues min(λ, f) of R·P·R, with f = max(c·δ, λ_r)."""
    surface = network(loss_scale=2.0, effective_points=30.0)
    if by_layer:
        surface = network(layers_prior(surface), loss_scale=2.0, effective_points=30.0)
    assert surface.size == 13
    thetas = surface.initial + 0.3 * randn(2, 13)
    frame = choice(surface, rank=rank, floor=3.0).first(thetas, Frame.euclidean(thetas))
    flat = 2.0 * float(surface.prior_precision.median())
    for row in range(2):
        matrix = ggn(surface, thetas[row])
        scale = torch.eye(13, dtype=torch.float64)
        if by_layer:
            scale = (surface.prior_precision.median() / surface.prior_precision).sqrt().diag()
        assert frame.scale.shape[1] == (13 if by_layer else 0)
        values = torch.linalg.eigvalsh(scale @ matrix @ scale).flip(0)
        level = max(3.0 * flat, float(values[rank - 1]))
        assert values[0] > 10 * level  # there is something to soften
        frames = dense_frame(frame, row)
        found = torch.linalg.eigvalsh(frames.T @ matrix @ frames).flip(0)
        # Sweeps find the leading directions well and the last one hardly.
        rounding = 1e-9 if rank == 13 else 2e-2
        wanted = values.clamp(max=level).sort(descending=True).values
        torch.testing.assert_close(found.max(), wanted.max(), rtol=10 * rounding, atol=0)
        torch.testing.assert_close(found, wanted, rtol=10 * rounding, atol=1e-9)
        torch.testing.assert_close(
            frame.level[row], torch.tensor(level, dtype=torch.float64), rtol=rounding, atol=0
        )


def test_without_a_prior_the_level_is_a_curvature_that_is_not_rounding():
    surface = network(0.0, points=5)  # five points: rank 5 of 13
    theta = surface.initial.unsqueeze(0)
    frame = choice(surface, rank=13).first(theta, Frame.euclidean(theta))
    values = torch.linalg.eigvalsh(ggn(surface, theta[0])).flip(0)
    assert values[5].abs() < 1e-9 < 1e-6 < values[4]
    torch.testing.assert_close(frame.level[0], values[4], rtol=1e-6, atol=0)
    assert frame.softening.min() > 0


@pytest.mark.parametrize("by_layer", [False, True], ids=["one prior", "a prior for each layer"])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_the_start_energy_is_that_of_the_perturbation_in_the_frame(by_layer, preconditioned):
    """With G̃^(−½) T = ½‖F⁻¹ε‖² whatever the slope; without, the slope adds ½(gᵀε)²."""
    surface = network()
    if by_layer:
        surface = network(layers_prior(surface))
    position = surface.initial + 0.2 * randn(surface.size)
    _, gradients = surface.value_and_grad(position.unsqueeze(0))
    assert gradients.norm() > 10
    noise = 0.3 * randn(3, surface.size, seed=1)
    metric = dims.MovingMetric(rank=13)
    thetas = position.unsqueeze(0)
    frame = metric._choice(surface).first(thetas, Frame.euclidean(thetas))
    inside = torch.linalg.solve(dense_frame(frame), noise.T).T
    wanted = 0.5 * inside.square().sum(-1)
    if not preconditioned:
        wanted = wanted + 0.5 * (noise @ gradients[0]).square()
    sampler = dims.DiMS(metric=metric, precondition=preconditioned, max_time=0.01)
    path = sampler.follow(Start(surface, position, gradients[0]), noise, save_at=[0.0, 0.01])
    torch.testing.assert_close(path.start_kinetic_energy, wanted)
    torch.testing.assert_close(path.kinetic_energy[0], wanted)
    if not preconditioned:
        assert torch.equal(path.velocities[0], noise)


def test_rows_at_one_place_share_the_work(monkeypatch):
    surface = network()
    thetas = surface.initial.expand(3, -1)
    metric = choice(surface, rank=6)
    together = metric.first(thetas, Frame.euclidean(thetas))
    apart = thetas + torch.tensor([[0.0], [0.0], [1e-9]], dtype=torch.float64)
    each = metric.first(apart, Frame.euclidean(apart))
    assert torch.equal(together.basis[0], together.basis[2])
    for name in ("softening", "level"):
        torch.testing.assert_close(
            getattr(together, name), getattr(each, name), rtol=1e-5, atol=1e-5
        )
    projectors = [frame.basis.mT @ frame.basis for frame in (together, each)]
    torch.testing.assert_close(*projectors, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rank", [None, 100, 10_000])
def test_at_eleven_million_parameters_directions_fit_half_a_gigabyte(rank, dtype, monkeypatch):
    surface, size = network(), 11_000_000
    monkeypatch.setattr(surface, "points", 60_000)
    for where in (surface, dims.Surface(lambda theta: theta.square().sum())):
        found = choice(where, rank=rank)._rank(size, dtype.itemsize)
        assert found >= 5
        assert found * size * dtype.itemsize <= GIGABYTE // 2
        assert 8 * found * size * dtype.itemsize <= 4 * GIGABYTE  # eight rows
    # A single direction of a network too large for the budget is still followed.
    assert choice(surface)._rank(10**9, 8) == 1


def test_the_rank_follows_the_points_of_a_network(monkeypatch):
    surface = network()
    ranks = {}
    for points in (10, 400, 60_000):
        monkeypatch.setattr(surface, "points", points)
        ranks[points] = choice(surface)._rank(100_000, 4)
    assert ranks == {10: 20, 400: 40, 60_000: 100}
    assert choice(surface, rank=7)._rank(100_000, 4) == 7
    assert choice(surface, rank=70)._rank(50, 4) == 50
    assert choice(dims.Surface(lambda theta: theta.sum()))._rank(100_000, 4) == 20


def test_the_points_of_a_refresh_come_from_seed_row_and_refresh():
    surface = network(points=300)
    thetas = surface.initial.expand(4, -1)
    numbers, refreshes = torch.tensor([5, 6, 5, 5]), torch.tensor([1, 1, 2, 1])
    part = choice(surface, points=30, seed=1)._part(thetas, numbers, refreshes)
    assert part.points.shape == (4, 30)
    rows = [set(row) for row in part.points.tolist()]
    assert rows[0] == rows[3]
    assert rows[0] != rows[1]
    assert rows[0] != rows[2]
    other = choice(surface, points=30, seed=2)._part(thetas, numbers, refreshes)
    assert set(other.points[0].tolist()) != rows[0]
    # All of them where they are few, and on a surface without data.
    assert choice(surface, points=300)._part(thetas, numbers, refreshes) is None
    assert choice(network())._part(thetas, numbers, refreshes) is None
