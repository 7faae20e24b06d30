"""Last-layer Laplace: exact for Bayesian linear regression, and on fixed features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from baseline_problems import (
    NOISE,
    PRIOR,
    class_data,
    linear_regression,
    network,
    randn,
    regression_data,
    untouched,
)
from torch import Tensor, nn

import dims
from dims.baselines import last_layer
from dims.curvature import fit_curvature
from dims.curvature.evidence import tune_evidence

FIXED: dict[str, Any] = {"tune": False, "noise_std": NOISE, "prior_precision": PRIOR}


def assert_gaussian(thetas: Tensor, mean: Tensor, covariance: Tensor) -> None:
    """Whitened draws have mean 0 ± 1/√S and covariance I ± √(2/S)."""
    white = (thetas - mean) @ torch.linalg.inv(torch.linalg.cholesky(covariance)).T
    count = len(thetas)
    assert float(white.mean(0).abs().max()) < 5 / count**0.5
    error = white.T @ white / count - torch.eye(len(mean), dtype=torch.float64)
    assert float(error.abs().max()) < 5 * (2 / count) ** 0.5


def test_linear_regression_is_exact() -> None:
    problem = linear_regression()
    draws = last_layer(problem.model, problem.data, "regression", 20_000, **FIXED)
    assert draws.method == "last_layer"
    assert draws.settings["layer"] == ""
    assert_gaussian(draws.parameters, problem.mean, problem.covariance)


def test_the_head_of_a_network_is_linear_regression_on_its_features() -> None:
    model = network(0)
    x, y = regression_data()
    with torch.no_grad():
        design = torch.cat([model[:2](x), torch.ones(20, 1, dtype=torch.float64)], 1)
        precision = design.T @ design / NOISE**2 + PRIOR * torch.eye(6, dtype=torch.float64)
        covariance = torch.linalg.inv(precision)
        mean = (covariance @ design.T @ y / NOISE**2).squeeze(1)
        model[2].weight.copy_(mean[:5].view(1, 5))
        model[2].bias.copy_(mean[5:])
    with untouched(model):
        draws = last_layer(model, (x, y), "regression", 20_000, **FIXED)
    assert draws.settings["layer"] == "2"
    assert_gaussian(draws.parameters, mean, covariance)
    evidence = torch.distributions.MultivariateNormal(
        torch.zeros(20, dtype=torch.float64),
        design @ design.T / PRIOR + NOISE**2 * torch.eye(20, dtype=torch.float64),
    ).log_prob(y.squeeze(1))
    assert draws.settings["log_marginal_likelihood"] == pytest.approx(float(evidence))
    few = draws.select(slice(0, 3))
    new = randn(7, 3, seed=9)
    with torch.no_grad():
        features = torch.cat([model[:2](new), torch.ones(7, 1, dtype=torch.float64)], 1)
    expected = (few.parameters @ features.T).unsqueeze(-1)
    torch.testing.assert_close(few.predict(new).samples, expected)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_tuning_is_that_of_the_evidence(kind: str) -> None:
    regression = kind == "regression"
    model = network(0, outputs=1 if regression else 3)
    data = regression_data() if regression else class_data()
    draws = last_layer(model, data, kind, 4)
    surface = dims.LossSurface(model, data, kind, parameters=["2"])
    curvature = fit_curvature(surface, surface.initial)
    fit = tune_evidence(surface, surface.initial, curvature)
    assert float(draws.surface.prior_precision) == fit.prior_precision
    assert draws.settings["log_marginal_likelihood"] == pytest.approx(fit.log_marginal_likelihood)
    if isinstance(draws.surface.likelihood, dims.Gaussian):
        assert draws.surface.likelihood.noise_std == fit.noise_std
        held = last_layer(model, data, kind, 4, noise_std=0.5)
        assert held.surface.likelihood == dims.Gaussian(0.5)
    given = last_layer(model, data, kind, 4, prior_precision=3.0)
    assert float(given.surface.prior_precision) == 3.0


class Crossed(nn.Module):
    """The head is made before the body."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.body = nn.Linear(3, 4)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(x)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.head.weight = self.body.weight
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(x)))


@pytest.mark.parametrize("curvature", ["full", "diagonal", "kronecker", "low_rank"])
def test_the_layer_called_last_is_taken_whatever_the_structure(curvature: str) -> None:
    model = Crossed()
    options: dict[str, Any] = {"curvature": curvature, "rank": 5, "tune": False}
    with untouched(model):
        draws = last_layer(model, regression_data(2), "regression", 3, **options)
    assert draws.settings["layer"] == "head"
    assert draws.parameters.shape == (3, 10)
    named = last_layer(model, regression_data(2), "regression", 3, **options, layer="body")
    assert named.parameters.shape == (3, 16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_seeds_reproduce_and_files_hold_the_draws(dtype: torch.dtype, tmp_path: Path) -> None:
    model = network(0, outputs=3, dtype=dtype)
    draws = last_layer(model, class_data(), "classification", 5, seed=2, tune=False)
    torch.rand(3)
    again = last_layer(model, class_data(), "classification", 5, seed=2, tune=False)
    assert torch.equal(again.parameters, draws.parameters)
    other = last_layer(model, class_data(), "classification", 5, seed=3, tune=False)
    assert not torch.equal(other.parameters, draws.parameters)
    draws.save(tmp_path / "head.safetensors")
    loaded = dims.load(tmp_path / "head.safetensors", model=model)
    x = class_data()[0].to(dtype)
    assert torch.equal(loaded.predict(x).samples, draws.predict(x).samples)


def test_bad_arguments_are_refused() -> None:
    data = regression_data()
    with pytest.raises(ValueError, match="draws"):
        last_layer(network(), data, "regression", 0)
    with pytest.raises(ValueError, match=r"'head' is not a linear layer .* '0', '2'"):
        last_layer(network(), data, "regression", 2, layer="head")
    with pytest.raises(ValueError, match="'1' is not a linear"):
        last_layer(network(), data, "regression", 2, layer="1")
    with pytest.raises(ValueError, match="curvature"):
        last_layer(network(), data, "regression", 2, curvature="round")
    with pytest.raises(ValueError, match="seed"):
        last_layer(network(), data, "regression", 2, seed=-1)
    frozen = network()
    frozen[2].requires_grad_(False)
    with pytest.raises(ValueError, match="'2' is frozen"):
        last_layer(frozen, data, "regression", 2)
    with pytest.raises(ValueError, match="shared with an earlier layer"):
        last_layer(Tied(), regression_data(3), "regression", 2)
    convolution = nn.Sequential(nn.Conv1d(3, 1, 1), nn.Flatten()).double()
    with pytest.raises(ValueError, match=r"no nn\.Linear"):
        last_layer(convolution, (randn(20, 3, 1), randn(20, 1)), "regression", 2)
    dropping = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1)).double()
    with untouched(dropping), pytest.raises(ValueError, match="eval"):
        last_layer(dropping, data, "regression", 2)
