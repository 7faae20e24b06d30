"""laplace-torch as oracle (H, posterior, evidence), and its fitted objects as curvatures."""

from __future__ import annotations

import copy
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dims.curvature import Curvature, fit_curvature, from_laplace
from dims.curvature.evidence import log_marginal_likelihood
from dims.model.likelihoods import Categorical, Gaussian, HeteroscedasticGaussian
from dims.surface.loss import LossSurface

# Raised by torch itself when forward-mode derivatives are first used.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

STRUCTURES = {"full": "full", "diag": "diagonal", "kron": "kronecker"}
# laplace-torch multiplies its full GGN with a float32 identity, whatever the model's precision.
TOLERANCE = {"full": 2e-7, "diag": 1e-10, "kron": 1e-9}
NETWORKS = ("mlp", "cnn")
TASKS = ("regression", "classification")


@pytest.fixture(scope="module")
def laplace() -> ModuleType:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        return pytest.importorskip("laplace")


def problem(network: str, task: str) -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    if network == "mlp":
        inputs = torch.randn(20, 4, dtype=torch.float64)
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    else:
        inputs = torch.randn(20, 1, 6, 6, dtype=torch.float64)
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3))
    if task == "regression":
        return model.double(), (inputs, torch.randn(20, 3, dtype=torch.float64))
    return model.double(), (inputs, torch.randint(3, (20,)))


def fit_both(
    laplace: ModuleType, network: str, task: str, structure: str, **settings: float
) -> tuple[Any, LossSurface, Curvature]:
    model, data = problem(network, task)
    noise = 0.4 if task == "regression" else 1.0
    la = laplace.Laplace(
        model,
        task,
        subset_of_weights="all",
        hessian_structure=structure,
        prior_precision=0.7,
        sigma_noise=noise,
    )
    la.fit(DataLoader(TensorDataset(*data), batch_size=20))
    likelihood = Gaussian(noise) if task == "regression" else Categorical()
    surface = LossSurface(model, data, likelihood, prior_precision=0.7, **settings)
    return la, surface, fit_curvature(surface, surface.initial, STRUCTURES[structure])


def dense_posterior(la: Any) -> torch.Tensor:
    precision = la.posterior_precision
    if hasattr(precision, "to_matrix"):
        return precision.to_matrix()
    return torch.diag(precision) if precision.ndim == 1 else precision


@pytest.mark.parametrize("structure", list(STRUCTURES))
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("network", NETWORKS)
def test_curvature_and_evidence_are_those_of_laplace_torch(
    laplace: ModuleType, network: str, task: str, structure: str
) -> None:
    la, surface, curvature = fit_both(laplace, network, task, structure)
    identity = torch.eye(surface.size, dtype=torch.float64)
    expected = dense_posterior(la).detach()
    error = TOLERANCE[structure] * expected.abs().max()
    torch.testing.assert_close(
        curvature.dense() + 0.7 * identity, expected, rtol=0, atol=float(error)
    )
    precision = curvature.precision_for(surface)
    torch.testing.assert_close(precision.solve(expected), identity, rtol=0, atol=2 * float(error))
    evidence = log_marginal_likelihood(surface, surface.initial, curvature)
    assert evidence == pytest.approx(float(la.log_marginal_likelihood()), rel=TOLERANCE[structure])
    other = float(la.log_marginal_likelihood(prior_precision=torch.tensor(3.0)))
    ours = log_marginal_likelihood(surface, surface.initial, curvature, prior_precision=3.0)
    assert ours == pytest.approx(other, rel=TOLERANCE[structure])


@pytest.mark.parametrize("structure", ["diag", "kron"])
def test_evidence_with_a_prior_for_each_tensor(laplace: ModuleType, structure: str) -> None:
    la, surface, curvature = fit_both(laplace, "mlp", "regression", structure)
    deltas = torch.tensor([0.2, 0.5, 1.0, 4.0], dtype=torch.float64)
    expected = float(la.log_marginal_likelihood(deltas, torch.tensor(0.8)))
    prior = deltas.repeat_interleave(torch.tensor(surface.vector.sizes))
    actual = log_marginal_likelihood(surface, surface.initial, curvature, prior, noise_std=0.8)
    assert actual == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("structure", list(STRUCTURES))
@pytest.mark.parametrize("task", TASKS)
def test_a_fitted_object_becomes_the_same_curvature(
    laplace: ModuleType, task: str, structure: str
) -> None:
    la, surface, own = fit_both(
        laplace, "cnn", task, structure, effective_points=8.0, loss_scale=2.0
    )
    adopted = from_laplace(la, surface)
    error = TOLERANCE[structure] * float(own.dense().abs().max())
    torch.testing.assert_close(adopted.dense(), own.dense(), rtol=0, atol=error)
    assert type(adopted) is type(own)
    precisions = [c.precision(0.3).log_determinant() for c in (adopted, own)]
    assert precisions[0] == pytest.approx(precisions[1], rel=TOLERANCE[structure])


def test_draws_of_an_adopted_posterior_have_its_covariance(laplace: ModuleType) -> None:
    la, surface, _ = fit_both(laplace, "mlp", "regression", "kron")
    root = (
        from_laplace(la, surface)
        .precision_for(surface)
        .color(torch.eye(surface.size, dtype=torch.float64))
    )
    covariance = torch.linalg.inv(dense_posterior(la)).detach()
    torch.testing.assert_close(root.T @ root, covariance, rtol=1e-7, atol=1e-9)


def test_objects_that_do_not_belong_are_refused(laplace: ModuleType) -> None:
    la, surface, _ = fit_both(laplace, "mlp", "regression", "full")
    model, data = problem("mlp", "regression")
    few = LossSurface(model, (data[0][:5], data[1][:5]), Gaussian())
    with pytest.raises(ValueError, match="20 points"):
        from_laplace(la, few)
    with pytest.raises(ValueError, match="other parameters"):
        from_laplace(la, surface, surface.initial + 1)
    head = LossSurface(model, data, Gaussian(), parameters=["2"])
    with pytest.raises(ValueError, match="43 parameters, the surface 18"):
        from_laplace(la, head)
    with pytest.raises(TypeError, match="laplace-torch"):
        from_laplace(object(), surface)
    labels = torch.randint(3, (20,))
    with pytest.raises(ValueError, match="classification"):
        from_laplace(la, LossSurface(model, (data[0], labels), Categorical()))
    by_row = copy.copy(surface)
    by_row.likelihood = HeteroscedasticGaussian()
    with pytest.raises(ValueError, match="one noise, heteroscedastic_gaussian of the surface"):
        from_laplace(la, by_row)
    la.temperature = 2.0
    with pytest.raises(ValueError, match="effective_points"):
        from_laplace(la, surface)


def test_an_object_that_is_not_fitted_is_refused(laplace: ModuleType) -> None:
    model, data = problem("mlp", "regression")
    la = laplace.Laplace(model, "regression", "all", hessian_structure="full")
    with pytest.raises(ValueError, match=r"la\.fit"):
        from_laplace(la, LossSurface(model, data, Gaussian()))


def test_a_last_layer_posterior_belongs_to_a_surface_over_the_last_layer(
    laplace: ModuleType,
) -> None:
    model, data = problem("mlp", "regression")
    la = laplace.Laplace(model, "regression", "last_layer", hessian_structure="full")
    la.fit(DataLoader(TensorDataset(*data), batch_size=20))
    surface = LossSurface(model, data, Gaussian(), parameters=["2"])
    own = fit_curvature(surface, surface.initial)
    torch.testing.assert_close(from_laplace(la, surface).dense(), own.dense())
