"""The evidence against exact Bayesian linear regression."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from dims.curvature import fit_curvature
from dims.curvature.evidence import log_marginal_likelihood, tune_evidence
from dims.model.likelihoods import Gaussian
from dims.surface.loss import LossSurface


def linear_regression(outputs: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    features = torch.randn(25, 4, generator=generator, dtype=torch.float64)
    weights = torch.randn(4, outputs, generator=generator, dtype=torch.float64)
    noise = 0.3 * torch.randn(25, outputs, generator=generator, dtype=torch.float64)
    return features, features @ weights + noise


def linear_surface(
    data: tuple[Tensor, Tensor], delta: Tensor | float, noise: float, **settings: float
) -> tuple[LossSurface, Tensor]:
    """A linear network and its MAP, by the normal equations of the tempered posterior."""
    features, targets = data
    outputs = targets.shape[1]
    model = nn.Linear(4, outputs, bias=False).double()
    surface = LossSurface(model, data, Gaussian(noise), delta, **settings)
    fraction = surface.effective_points / surface.points
    prior = surface.prior_precision.expand(4 * outputs).reshape(outputs, 4)
    rows = [
        torch.linalg.solve(
            fraction * features.T @ features / noise**2 + torch.diag(prior[c]),
            fraction * features.T @ targets[:, c] / noise**2,
        )
        for c in range(outputs)
    ]
    return surface, torch.cat(rows)


def exact_evidence(data: tuple[Tensor, Tensor], delta: Tensor | float, noise: float) -> float:
    """log N(y; 0, Φ·diag(1/δ)·Φᵀ + σ²I), one N × N covariance for each output."""
    features, targets = data
    outputs = targets.shape[1]
    deltas = torch.as_tensor(delta, dtype=torch.float64).expand(4 * outputs).reshape(outputs, 4)
    total = 0.0
    for c in range(outputs):
        covariance = (features / deltas[c]) @ features.T
        covariance += noise**2 * torch.eye(len(features), dtype=torch.float64)
        normal = torch.distributions.MultivariateNormal(
            torch.zeros(len(features)).double(), covariance
        )
        total += float(normal.log_prob(targets[:, c]))
    return total


@pytest.mark.parametrize("kind", ["ggn", "hessian"])
@pytest.mark.parametrize("structure", ["full", "low_rank"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_it_is_exact_for_linear_regression(structure: str, kind: str, outputs: int) -> None:
    data = linear_regression(outputs)
    vector = torch.linspace(0.2, 3, 4 * outputs, dtype=torch.float64)
    for delta, noise in ((0.7, 0.3), (2.0, 1.4), (vector, 0.5)):
        surface, theta = linear_surface(data, delta, noise)
        curvature = fit_curvature(surface, theta, structure, kind)
        actual = log_marginal_likelihood(surface, theta, curvature)
        assert actual == pytest.approx(exact_evidence(data, delta, noise), rel=1e-9)


def test_noise_other_than_the_fitted_one() -> None:
    """Curvature fitted at σ = 0.3, evidence asked for at σ = 1.1 and its own MAP."""
    data = linear_regression()
    loud, theta = linear_surface(data, 0.7, 1.1)
    quiet, _ = linear_surface(data, 0.7, 0.3)
    curvature = fit_curvature(quiet, theta)
    expected = exact_evidence(data, 0.7, 1.1)
    assert log_marginal_likelihood(quiet, theta, curvature, noise_std=1.1) == pytest.approx(
        expected
    )
    assert log_marginal_likelihood(loud, theta, curvature) == pytest.approx(expected)


def test_the_loss_scale_does_not_enter() -> None:
    data = linear_regression()
    values = []
    for scale in (1.0, 0.01, 30.0):
        surface, theta = linear_surface(data, 0.7, 0.4, loss_scale=scale)
        curvature = fit_curvature(surface, theta)
        values.append(log_marginal_likelihood(surface, theta, curvature))
        fit = tune_evidence(surface, theta, curvature)
        values.append(fit.log_marginal_likelihood)
    assert values[0] == pytest.approx(exact_evidence(data, 0.7, 0.4))
    assert values[2::2] == pytest.approx([values[0]] * 2, rel=1e-9)
    assert values[3::2] == pytest.approx([values[1]] * 2, rel=1e-9)


def test_effective_points_temper_the_likelihood() -> None:
    """p(y|θ)^(n/N) is a Gaussian of noise σ/√(n/N), up to a factor that is known."""
    data = linear_regression()
    surface, theta = linear_surface(data, 0.7, 0.4, effective_points=10.0)
    fraction = 10 / 25
    tempered = exact_evidence(data, 0.7, 0.4 / fraction**0.5)
    log_normaliser = 0.5 * math.log(2 * math.pi * 0.4**2)
    factor = 25 * (0.5 * math.log(2 * math.pi * 0.4**2 / fraction) - fraction * log_normaliser)
    curvature = fit_curvature(surface, theta)
    actual = log_marginal_likelihood(surface, theta, curvature)
    assert actual == pytest.approx(tempered + factor, rel=1e-9)
