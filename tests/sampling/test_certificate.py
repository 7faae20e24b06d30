"""Certificates: eigenvalues against dense Hessians, verdicts against known points."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dims
from cases import slow
from dims.sampling.certificate import Certificates, Verdict, certify
from dims.sampling.settle import settle
from problems import snelson, sphere, two_basins


def names(certificates: Certificates) -> list[str]:
    return [verdict.name for verdict in certificates.verdict]


def bent(size: int) -> dims.Surface:
    """A loss whose Hessian is full, changes from row to row and has both signs."""
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5

    def loss(theta: Tensor) -> Tensor:
        features = mixing.to(theta) @ theta
        return (features.sin() + 0.1 * features.square().square()).sum()

    return dims.Surface(loss)


def points(rows: int, size: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, size, generator=generator, dtype=torch.float64)


# Eigenvalues.


def test_extreme_eigenvalues_are_those_of_the_dense_hessian():
    surface, thetas = bent(50), points(4, 50)
    certificates = certify(surface, thetas)
    exact = torch.stack([torch.linalg.eigvalsh(surface.hessian(theta)) for theta in thetas])
    assert (exact[:, 0] < 0).all()
    torch.testing.assert_close(certificates.smallest_eigenvalue, exact[:, 0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(certificates.largest_eigenvalue, exact[:, -1], rtol=1e-6, atol=1e-6)
    assert (certificates.smallest_error < 1e-4).all()
    _, gradient = surface.value_and_grad(thetas)
    torch.testing.assert_close(certificates.gradient_norm, gradient.norm(dim=1))
    torch.testing.assert_close(certificates.loss, surface.value(thetas))


@pytest.mark.parametrize("products", [2, 5, 12])
def test_errors_bound_the_distance_to_an_eigenvalue_when_products_are_few(products):
    surface, thetas = bent(50), points(4, 50)
    certificates = certify(surface, thetas, max_products=products)
    exact = torch.stack([torch.linalg.eigvalsh(surface.hessian(theta)) for theta in thetas])
    for found, error in (
        (certificates.smallest_eigenvalue, certificates.smallest_error),
        (certificates.largest_eigenvalue, certificates.largest_error),
    ):
        assert ((found.unsqueeze(-1) - exact).abs().amin(-1) <= error).all()
    assert (certificates.smallest_eigenvalue >= exact[:, 0] - 1e-9).all()
    assert (certificates.smallest_error > 1e-2).any()
    assert (certificates.products <= 2 * products).all()


@pytest.mark.data
def test_the_trained_snelson_network_sits_on_a_slope_with_negative_curvature():
    surface, _ = snelson()
    theta = surface.initial
    certificates = certify(surface, theta.unsqueeze(0))
    exact = torch.linalg.eigvalsh(surface.hessian(theta))
    assert exact[0] < -100
    smallest = float(certificates.smallest_eigenvalue[0])
    assert smallest == pytest.approx(float(exact[0]), rel=1e-6)
    assert float(certificates.largest_eigenvalue[0]) == pytest.approx(float(exact[-1]), rel=1e-6)
    assert names(certificates) == ["NOT_AT_REST"]
    half, _ = snelson(torch.float32)
    coarse = certify(half, half.initial.unsqueeze(0))
    error = float(coarse.smallest_error[0])
    assert abs(float(coarse.smallest_eigenvalue[0]) - float(exact[0])) <= error < 10
    assert names(coarse) == ["NOT_AT_REST"]


def test_the_seed_decides_and_hardly_matters():
    surface, thetas = bent(50), points(3, 50)
    first, again, other = (certify(surface, thetas, seed=seed) for seed in (0, 0, 7))
    assert torch.equal(first.smallest_eigenvalue, again.smallest_eigenvalue)
    assert not torch.equal(first.smallest_eigenvalue, other.smallest_eigenvalue)
    torch.testing.assert_close(
        first.smallest_eigenvalue, other.smallest_eigenvalue, rtol=1e-5, atol=0
    )
    alone = certify(surface, thetas[1:2])
    torch.testing.assert_close(first.smallest_eigenvalue[1:2], alone.smallest_eigenvalue)


# The gain.


def test_gains_of_a_quadratic_are_closed_forms():
    curvatures = torch.tensor([1e4, 30.0, 2.0, 0.5, 0.01, -0.2], dtype=torch.float64)
    surface = dims.Surface(lambda theta: 0.5 * (curvatures * theta.square()).sum())
    thetas = points(3, 6) * torch.tensor([1e-3, 0.1, 1, 1, 3, 1])
    certificates = certify(surface, thetas, flat_curvature=0.4)
    gradient, size = curvatures * thetas, curvatures.abs()
    stiff = 0.5 * (gradient.square() * size / (size.square() + 0.16)).sum(1)
    damped = 0.5 * (gradient.square() / (size + 0.4)).sum(1)
    torch.testing.assert_close(certificates.gain, stiff, rtol=1e-6, atol=0)
    torch.testing.assert_close(certificates.damped_gain, damped, rtol=1e-6, atol=0)
    assert certificates.flat_curvature.tolist() == [0.4] * 3


def test_without_flat_directions_the_gain_is_what_descent_gains():
    surface = two_basins()
    thetas = torch.tensor([[1.02, 0.05], [-1.05, -0.03]], dtype=torch.float64)
    certificates = certify(surface, thetas)
    gained = surface.value(thetas) - settle(surface, thetas, "full").loss
    torch.testing.assert_close(certificates.gain, gained, rtol=0.1, atol=0)


# Verdicts.


def test_a_hyperbolic_paraboloid_has_a_saddle():
    surface = dims.Surface(lambda theta: theta[0].square() - theta[1].square())
    certificates = certify(surface, torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64))
    assert names(certificates) == ["SADDLE", "NOT_AT_REST"]
    assert certificates.smallest_eigenvalue.tolist() == pytest.approx([-2, -2])
    assert certificates.largest_eigenvalue.tolist() == pytest.approx([2, 2])
    assert certificates.gain.tolist() == pytest.approx([0, 1])


def test_wells_are_minima_and_the_barrier_between_them_is_a_saddle():
    roots = np.sort(np.roots([4, 0, -4, 0.25]).real)
    thetas = torch.tensor([[root, 0.0] for root in roots], dtype=torch.float64)
    certificates = certify(two_basins(), thetas)
    assert names(certificates) == ["MINIMUM", "SADDLE", "MINIMUM"]
    smallest = [min(1.0, 12 * root**2 - 4) for root in roots]
    assert certificates.smallest_eigenvalue.tolist() == pytest.approx(smallest)


def test_on_the_sphere_every_point_is_a_minimum_and_the_centre_is_not():
    ray = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    certificates = certify(sphere(), torch.stack([ray, 0 * ray, 2 * ray]))
    assert names(certificates) == ["MINIMUM", "SADDLE", "NOT_AT_REST"]
    assert float(certificates.largest_eigenvalue[0]) == pytest.approx(8)
    assert float(certificates.smallest_eigenvalue[0]) == pytest.approx(0, abs=1e-9)
    assert float(certificates.smallest_eigenvalue[1]) == pytest.approx(-4)


def test_a_slope_without_curvature_is_no_rest():
    thetas = torch.zeros(1, 2, dtype=torch.float64)
    linear = dims.Surface(lambda theta: theta.sum())
    assert names(certify(linear, thetas)) == ["NOT_AT_REST"]
    gutter = dims.Surface(lambda theta: theta[0].square() + 0.1 * theta[1])
    assert names(certify(gutter, thetas)) == ["NOT_AT_REST"]
    constant = dims.Surface(lambda theta: 0 * theta.sum())
    assert names(certify(constant, thetas)) == ["MINIMUM"]


def test_what_is_not_finite_is_undecided_and_alone_in_it():
    thetas = torch.tensor([[math.nan, 0.0], [1.0, 0.0]], dtype=torch.float64)
    certificates = certify(sphere(), thetas)
    assert names(certificates) == ["UNDECIDED", "MINIMUM"]
    assert certificates.smallest_eigenvalue[0].isnan()


def test_too_few_products_leave_a_minimum_undecided_never_wrong():
    """300 curvatures from 1 to 1e4 and a hidden −5: two products cannot see it."""
    curvatures = torch.logspace(0, 4, 300).double()
    curvatures[7] = -5.0
    surface = dims.Surface(lambda theta: 0.5 * (curvatures * theta.square()).sum())
    theta = torch.zeros(1, 300, dtype=torch.float64)
    hasty = certify(surface, theta, flat_curvature=1.0, max_products=2)
    assert float(hasty.smallest_eigenvalue[0]) > 0
    assert names(hasty) == ["UNDECIDED"]
    assert names(certify(surface, theta, flat_curvature=1.0)) == ["SADDLE"]
    assert names(certify(surface, theta, flat_curvature=6.0)) == ["MINIMUM"]


def test_every_verdict_gives_advice():
    assert all(len(verdict.advice) > 20 for verdict in Verdict)
    assert "settle" in Verdict.NOT_AT_REST.advice


# Networks: flat directions that only the prior bends.


def regression(loss_scale: float = 1.0, dtype: torch.dtype = torch.float64) -> dims.LossSurface:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(3, 6, generator=generator, dtype=torch.float64).to(dtype)
    model = nn.Linear(6, 1, bias=False).to(dtype)
    data = (inputs, inputs.sum(1))
    return dims.LossSurface(model, data, dims.Gaussian(0.01), 0.1, loss_scale=loss_scale)


@pytest.mark.parametrize("scale", [slow(1.0), 1e-3, slow(50.0)])
def test_a_draw_at_rest_in_stiff_directions_is_a_minimum_whatever_the_unit_of_the_loss(scale):
    surface = regression(scale)
    bottom = settle(regression(), surface.initial.unsqueeze(0), "full").positions
    curvatures, axes = torch.linalg.eigh(regression().hessian(bottom[0]))
    flat = bottom + torch.tensor([1.5, -1.0, 0.5, 0, 0, 0], dtype=torch.float64) @ axes.T
    rings = torch.tensor([0, 0, 0, 1.0, 1.0, 1.0], dtype=torch.float64) / curvatures.abs().sqrt()
    draws = torch.cat([bottom, flat, flat + rings @ axes.T])
    certificates = certify(surface, draws)
    assert names(certificates) == ["MINIMUM", "MINIMUM", "NOT_AT_REST"]
    assert float(certificates.gain[2]) == pytest.approx(1.5 * scale, rel=0.01)  # ½ in each of three
    settled = settle(surface, draws[2:], "stiff")
    assert names(certify(surface, settled.positions)) == ["MINIMUM"]
    kept = ((settled.positions - bottom) @ axes)[0, :3]
    assert kept.tolist() == pytest.approx([1.5, -1.0, 0.5], rel=0.11)


def test_float32_certificates():
    surface = regression(dtype=torch.float32)
    bottom = settle(surface, surface.initial.unsqueeze(0), "full").positions
    certificates = certify(surface, bottom)
    assert names(certificates) == ["MINIMUM"]
    assert certificates.smallest_eigenvalue.dtype == torch.float64
    exact = torch.linalg.eigvalsh(regression().hessian(bottom[0].double()))
    error = float(certificates.smallest_error[0])
    assert abs(float(certificates.smallest_eigenvalue[0] - exact[0])) <= error < 1


# What is handed through, and bad input.


def test_kinetic_energy_and_displacement_are_handed_through():
    thetas = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    energy, moved = torch.tensor([0.3, 0.1]).double(), torch.tensor([1e-3, 2e-3]).double()
    certificates = certify(sphere(), thetas, energy, moved)
    assert torch.equal(certificates.kinetic_energy, energy)
    assert torch.equal(certificates.displacement, moved)
    assert names(certificates) == ["MINIMUM", "MINIMUM"]  # energy is reported, not judged
    assert certify(sphere(), thetas).kinetic_energy.isnan().all()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"flat_curvature": 0.0}, "flat_curvature"),
        ({"negligible_gain": -1.0}, "negligible_gain"),
        ({"max_products": 0}, "max_products"),
        ({"kinetic_energy": torch.zeros(3).double()}, "kinetic_energy"),
        ({"displacement": torch.zeros(1).double()}, "displacement"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        certify(sphere(), torch.ones(2, 2), **arguments)
