"""Noise by (seed, index) only, velocities with the right covariance, and the preconditioning."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dims.curvature import STRUCTURES, Precision, fit_curvature
from dims.mechanics.dynamics import kinetic_energy
from dims.model.likelihoods import Categorical
from dims.sampling.perturbations import perturbations, precondition, standard_noise
from dims.surface.loss import LossSurface


def precision_of(structure: str = "full", dtype: torch.dtype = torch.float64) -> Precision:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)
    data = torch.randn(30, 4), torch.randint(3, (30,))
    surface = LossSurface(model, data, Categorical())
    return fit_curvature(surface, surface.initial, structure, rank=10).precision(0.4)


def test_a_draw_depends_on_seed_and_index_only() -> None:
    noise = standard_noise(7, 50, seed=3)
    torch.testing.assert_close(standard_noise(2, 50, 3, first=4), noise[4:6], rtol=0, atol=0)
    assert torch.equal(standard_noise(1, 50, 3), noise[:1])
    single = standard_noise(7, 50, 3, dtype=torch.float32)
    assert single.dtype == torch.float32
    assert torch.equal(single, noise.float())


def test_the_numbers_never_change() -> None:
    """Saved draws must be reproducible: these are the numbers of Philox with the key (11, 5)."""
    expected = torch.tensor(
        [-1.3007204584673764, 0.4024892921086581, 1.4291825095677915, -0.7255877385321381],
        dtype=torch.float64,
    )
    torch.testing.assert_close(standard_noise(1, 4, 11, first=5)[0], expected, rtol=1e-12, atol=0)


def test_streams_of_seeds_and_draws_are_distinct_and_normal() -> None:
    noise = torch.stack([standard_noise(30, 400, seed) for seed in (0, 1, 2, 2**32, 2**32 + 1)])
    rows = noise.flatten(0, 1)
    correlation = rows @ rows.T / 400 - torch.eye(len(rows), dtype=torch.float64)
    # Entries are normal with variance 1/400 (2/400 on the diagonal); equal rows would give 1.
    assert float(correlation.abs().max()) < 5.5 * (2 / 400) ** 0.5
    flat = rows.flatten()
    assert abs(float(flat.mean())) < 4 / len(flat) ** 0.5
    assert abs(float(flat.square().mean()) - 1) < 4 * (2 / len(flat)) ** 0.5
    assert abs(float((flat**4).mean()) - 3) < 4 * (96 / len(flat)) ** 0.5


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 2**64}, {"first": -2}, {"draws": -1}])
def test_seeds_and_indices_are_checked(wrong: dict[str, int]) -> None:
    arguments = {"draws": 1, "size": 2, "seed": 0} | wrong
    with pytest.raises(ValueError, match=next(iter(wrong))):
        standard_noise(**arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("structure", list(STRUCTURES))
def test_velocities_do_not_depend_on_how_many_are_asked_for(
    structure: str, dtype: torch.dtype
) -> None:
    precision = precision_of(structure, dtype)
    many = perturbations(precision, 40, seed=2)
    assert many.dtype == dtype
    for first, count in ((0, 1), (3, 7), (15, 2), (16, 16), (31, 9)):
        part = perturbations(precision, count, seed=2, first=first)
        assert torch.equal(part, many[first : first + count])
    assert perturbations(precision, 0, seed=2).shape == (0, precision.size)


@pytest.mark.parametrize("structure", list(STRUCTURES))
def test_velocities_have_the_covariance_of_the_precision(structure: str) -> None:
    precision = precision_of(structure)
    count = 4_000
    draws = perturbations(precision, count, seed=5)
    covariance = precision.solve(torch.eye(precision.size, dtype=torch.float64))
    whitener = torch.linalg.cholesky(torch.linalg.inv(covariance))
    white = draws @ whitener
    deviation = (white.T @ white / count - torch.eye(precision.size)) * count**0.5
    deviation.diagonal().div_(2**0.5)
    assert float(deviation.abs().max()) < 5.0


@pytest.mark.parametrize("steepness", [0.0, 1e-3, 1.0, 1e4])
def test_precondition_is_the_inverse_root_of_the_metric(steepness: float) -> None:
    torch.manual_seed(0)
    noise = torch.randn(6, 12, dtype=torch.float64)
    gradient = steepness * torch.randn(12, dtype=torch.float64)
    metric = torch.eye(12, dtype=torch.float64) + torch.outer(gradient, gradient)
    values, vectors = torch.linalg.eigh(metric)
    expected = noise @ (vectors / values.sqrt()) @ vectors.T
    torch.testing.assert_close(precondition(noise, gradient), expected, rtol=0, atol=1e-6)


def test_preconditioned_kinetic_energy_does_not_depend_on_the_place() -> None:
    torch.manual_seed(0)
    noise = torch.randn(5, 300)
    gradients = torch.tensor([0.0, 1.0, 1e2, 1e4, 1e6]).unsqueeze(-1) * torch.randn(5, 300)
    velocity = precondition(noise.double(), gradients.double())
    energy = kinetic_energy(velocity, gradients.double())
    torch.testing.assert_close(energy, 0.5 * noise.double().square().sum(-1), rtol=1e-6, atol=0)
    single = precondition(noise, gradients)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), velocity, rtol=1e-5, atol=1e-6)


def test_a_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="gradient"):
        precondition(torch.zeros(2, 3), torch.zeros(4))
