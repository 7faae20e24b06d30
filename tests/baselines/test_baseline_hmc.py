"""HMC against the closed posterior of linear regression, tempered ones too."""

from __future__ import annotations

import builtins
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from baseline_problems import (
    NOISE,
    PRIOR,
    class_data,
    linear_regression,
    network,
    untouched,
)
from torch import nn

import dims
from dims.baselines import hmc
from dims.baselines.hmc import Potential
from dims.errors import HmcWarning

pytest.importorskip("pyro")


def linear_surface(effective: float | None = None, scale: float = 1.0) -> dims.LossSurface:
    problem = linear_regression()
    options: dict[str, Any] = {"effective_points": effective, "loss_scale": scale}
    return dims.LossSurface(problem.model, problem.data, dims.Gaussian(NOISE), PRIOR, **options)


def assert_posterior(draws: dims.Draws, mean: torch.Tensor, covariance: torch.Tensor) -> None:
    """Whitened draws have mean 0 and covariance I within four standard errors of their ESS."""
    size = draws.settings["effective_sample_size"]
    white = (draws.parameters - mean) @ torch.linalg.inv(torch.linalg.cholesky(covariance)).T
    assert float(white.mean(0).abs().max()) < 4 / size**0.5
    error = white.T @ white / len(white) - torch.eye(3, dtype=torch.float64)
    # Squares mix more slowly than the positions that the sample size is of.
    assert float(error.abs().max()) < 4 * (2 / (0.5 * size)) ** 0.5


@pytest.mark.parametrize(
    ("effective", "scale", "count"),
    [
        (5.0, 0.25, 120),
        pytest.param(None, 1.0, 2000, marks=pytest.mark.slow),
        pytest.param(5.0, 0.25, 2000, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("unchecked")  # the checks would double the time
def test_linear_regression_within_statistical_error(
    effective: float | None, scale: float, count: int
) -> None:
    surface = linear_surface(effective, scale)
    exact = linear_regression(tempering=1.0 if effective is None else effective / 25)
    draws = hmc(surface, count, warmup=30, chains=2, seed=1)
    assert draws.method == "hmc"
    assert draws.settings["divergences"] == [0, 0]
    assert draws.settings["effective_sample_size"] > 0.3 * count
    assert draws.settings["r_hat"] < 1.1
    assert all(0.6 < number <= 1 for number in draws.settings["acceptance"])
    assert_posterior(draws, exact.mean, exact.covariance / scale)


def test_the_potential_is_the_surface() -> None:
    surface = dims.LossSurface(
        network(outputs=3),
        class_data(),
        "classification",
        0.3,
        effective_points=7.0,
        loss_scale=0.5,
    )
    potential = Potential(surface)
    theta = surface.initial.requires_grad_()
    value = potential({"theta": theta})
    (gradient,) = torch.autograd.grad(value, theta)
    expected, slope = surface.value_and_grad(surface.initial.unsqueeze(0))
    assert torch.equal(value.detach(), expected[0])
    assert torch.equal(gradient, slope[0])
    assert potential.calls == 1


def test_seeds_reproduce_and_nothing_else_is_touched() -> None:
    surface = linear_surface()
    with untouched(surface.module):
        draws = hmc(surface, 8, warmup=6, chains=2, seed=3)
    torch.rand(5)
    with torch.no_grad():
        again = hmc(surface, 8, warmup=6, chains=2, seed=3)
    assert torch.equal(again.parameters, draws.parameters)
    assert again.settings == draws.settings
    assert not torch.equal(draws.parameters[:4], draws.parameters[4:])
    single = hmc(surface, 4, warmup=6, seed=3)
    assert torch.equal(single.parameters, draws.parameters[:4])
    other = hmc(surface, 4, warmup=6, seed=4)
    assert not torch.equal(other.parameters, draws.parameters[4:])
    assert (draws.evaluations > 0).all()


def test_a_float32_classifier_from_a_posterior_predicts_and_is_saved(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    surface = dims.LossSurface(model, class_data(), "classification")
    start = torch.full((12,), 0.25)
    fitted = SimpleNamespace(surface=surface, map_parameters=start)
    draws = hmc(fitted, 3, warmup=6, dense_mass=False)
    assert torch.equal(draws.map_parameters, start)
    assert draws.parameters.dtype == torch.float32
    assert draws.settings["effective_sample_size"] is None
    draws.save(tmp_path / "hmc.safetensors")
    loaded = dims.load(tmp_path / "hmc.safetensors", model=model)
    x = class_data()[0].float()
    assert torch.equal(loaded.predict(x).samples, draws.predict(x).samples)
    assert loaded.settings == draws.settings


def test_divergences_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyro.infer.mcmc import NUTS

    told = {"divergences": [0, 3], "acceptance rate": 1.0}
    monkeypatch.setattr(NUTS, "diagnostics", lambda self: told)
    with pytest.warns(HmcWarning, match="2 transitions diverged"):
        draws = hmc(linear_surface(), 4, warmup=10)
    assert draws.settings["divergences"] == [2]


def test_without_pyro_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("pyro"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"dims\[hmc\]"):
        hmc(linear_surface(), 2, warmup=5)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"draws": 0}, "draws"),
        ({"draws": 3, "chains": 2}, "draws: 3 draws"),
        ({"warmup": 0}, "warmup"),
        ({"chains": 0}, "chains"),
        ({"target_acceptance": 1.0}, "target_acceptance"),
        ({"max_tree_depth": 0}, "max_tree_depth"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_arguments_are_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        hmc(linear_surface(), **{"draws": 2, "warmup": 5, **wrong})


@pytest.mark.usefixtures("unchecked")
def test_a_plain_function_has_no_network_to_return_draws_of() -> None:
    for wrong in (dims.Surface(lambda theta: theta.square().sum()), 3):
        with pytest.raises(TypeError, match=r"posterior: expected a dims\.LossSurface"):
            hmc(wrong, 2)
