"""Temperatures against their stationarity, known truths, closed forms and another minimiser."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from baseline_problems import class_data, linear_regression, network, randn, regression_data
from torch import Tensor, nn

import dims
from cases import diagonal
from conformance.likelihoods import check_likelihood
from dims.baselines import deep_ensemble, temperature_scaling
from dims.baselines.temperature import Tempered


def classifier(outputs: int = 3, scale: float = 3.0) -> dims.LossSurface:
    """A network with confident outputs, whatever the truth."""
    model = network(1, outputs)
    with torch.no_grad():
        model[2].weight.mul_(scale)
    classes = max(outputs, 2)
    return dims.LossSurface(model, class_data(classes), "classification")


def held_out(surface: dims.LossSurface, temperature: float, points: int) -> tuple[Tensor, Tensor]:
    """Rows whose classes have the probabilities of the network at a temperature."""
    x = randn(points, 3, seed=9)
    outputs = surface.predict(surface.initial.unsqueeze(0), x)[0]
    logits = (
        torch.cat([torch.zeros_like(outputs), outputs], -1) if surface.outputs == 1 else outputs
    )
    generator = torch.Generator().manual_seed(0)
    probabilities = (logits / temperature).softmax(-1)
    return x, torch.multinomial(probabilities, 1, generator=generator)[:, 0]


def nll(surface: dims.LossSurface, rows: tuple[Tensor, Tensor], temperature: float) -> float:
    """By torch's own losses."""
    outputs = surface.predict(surface.initial.unsqueeze(0), rows[0])[0] / temperature
    if surface.outputs == 1:
        loss = nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], rows[1].double())
        return float(loss)
    return float(nn.functional.cross_entropy(outputs, rows[1]))


@pytest.mark.parametrize(("truth", "outputs"), diagonal([0.5, 1.0, 4.0], [1, 3]))
def test_a_known_temperature_is_found(outputs: int, truth: float) -> None:
    surface = classifier(outputs)
    rows = held_out(surface, truth, 40_000)
    found = temperature_scaling(surface, rows).settings["temperature"]
    assert found == pytest.approx(truth, rel=0.06)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_slope_is_zero_and_another_minimiser_agrees(outputs: int) -> None:
    surface = classifier(outputs)
    rows = held_out(surface, 2.0, 200)
    draws = temperature_scaling(surface, rows)
    found = draws.settings["temperature"]
    step = 1e-4
    slope = (nll(surface, rows, found + step) - nll(surface, rows, found - step)) / (2 * step)
    assert abs(slope) < 1e-7
    optimize = pytest.importorskip("scipy.optimize")
    other = optimize.minimize_scalar(
        lambda log_t: nll(surface, rows, math.exp(log_t)), bounds=(-4, 4), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    assert found == pytest.approx(math.exp(other.x), rel=1e-6)
    scores = draws.predict(rows[0]).metrics(rows[1])["ensemble"]
    assert scores["nll"] == pytest.approx(nll(surface, rows, found))


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_an_ensemble_has_the_best_mixture(task: str) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    outputs = 1 if task == "regression" else 3
    data = regression_data() if task == "regression" else class_data()
    draws = deep_ensemble([network(i, outputs) for i in range(4)], data, task)
    x = randn(60, 3, seed=11)
    raw = draws.surface.predict(draws.parameters, x)
    y = 0.2 * randn(60, 1, seed=12)
    if task == "classification":  # mostly the likeliest class
        likeliest = raw.softmax(-1).mean(0).argmax(-1)
        y = torch.where(torch.arange(60) % 4 == 0, (likeliest + 1) % 3, likeliest)
    scaled = temperature_scaling(draws, (x, y))

    def mixture(log_t: float) -> float:
        factor = math.exp(log_t)
        if task == "regression":
            noise = factor * draws.surface.likelihood.noise_std
            return float(dims.metrics.mixture_nll(raw, y, noise))
        average = (raw / factor).softmax(-1).mean(0).log()
        return float(nn.functional.nll_loss(average, y))

    other = optimize.minimize_scalar(
        mixture, bounds=(-4, 4), method="bounded", options={"xatol": 1e-9}
    )
    assert scaled.settings["temperature"] == pytest.approx(math.exp(other.x), rel=1e-5)
    after = scaled.predict(x).metrics(y)["ensemble"]["nll"]
    assert after == pytest.approx(other.fun)
    assert after < draws.predict(x).metrics(y)["ensemble"]["nll"]
    assert scaled.method == "deep_ensemble"


def test_the_noise_of_one_network_is_its_held_out_residual() -> None:
    problem = linear_regression()
    surface = dims.LossSurface(problem.model, problem.data, dims.Gaussian(0.01))
    x, y = randn(30, 2, seed=5), randn(30, 1, seed=6)
    scaled = temperature_scaling(surface, (x, y))
    with torch.no_grad():
        rms = float((problem.model(x) - y).square().mean().sqrt())
    assert scaled.surface.likelihood.noise_std == pytest.approx(rms, rel=1e-9)
    assert scaled.settings["temperature"] == pytest.approx(rms / 0.01, rel=1e-9)
    assert scaled.method == "temperature_scaling"
    assert torch.equal(scaled.loss, scaled.surface.value(scaled.parameters))


@pytest.mark.parametrize("members", [1, 4])
def test_noises_that_depend_on_the_row_get_one_factor(members: int, tmp_path: Path) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    likelihood = dims.HeteroscedasticGaussian(0.1, noise_factor=3.0)
    models = [network(i, 2) for i in range(members)]
    draws = deep_ensemble(models, regression_data(), likelihood)
    x, y = randn(60, 3, seed=11), 0.2 * randn(60, 1, seed=12)
    means, stds = likelihood.moments(draws.surface.predict(draws.parameters, x))

    def nll(factor: float) -> float:
        densities = torch.distributions.Normal(means, factor * stds).log_prob(y)[..., 0]
        return float(math.log(members) - densities.logsumexp(0).mean())

    scaled = temperature_scaling(draws, (x, y))
    found = scaled.settings["temperature"]
    other = optimize.minimize_scalar(
        lambda log_t: nll(math.exp(log_t)), bounds=(-4, 4), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    assert found == pytest.approx(math.exp(other.x), rel=1e-5)
    assert scaled.predict(x).metrics(y)["ensemble"]["nll"] == pytest.approx(nll(found))
    assert scaled.surface.likelihood == dims.HeteroscedasticGaussian(0.1, 3 * found)
    if members == 1:
        assert found == pytest.approx(float(((y - means[0]) / stds[0]).square().mean().sqrt()))
    scaled.save(tmp_path / "scaled.safetensors")
    loaded = dims.load(tmp_path / "scaled.safetensors", model=models[0])
    assert torch.equal(loaded.predict(x).samples, scaled.predict(x).samples)
    assert loaded.surface.likelihood == scaled.surface.likelihood


def test_draws_of_a_posterior_are_scaled_saved_and_loaded(tmp_path: Path) -> None:
    x, y = class_data()
    model = network(0, 3)
    posterior = dims.fit(
        model, (x, y), "classification", prior_precision=1.0, refine=True, tune=True
    )
    draws = posterior.sample(4, "linla", progress=False)
    rows = randn(40, 3, seed=3), torch.arange(40) % 3
    scaled = temperature_scaling(draws, rows)
    temperature = scaled.settings["temperature"]
    linear = posterior.surface.predict_linearised(posterior.map_parameters, draws.parameters, x)
    expected = (linear / temperature).softmax(-1)
    torch.testing.assert_close(scaled.predict(x).samples, expected)
    scaled.save(tmp_path / "scaled.safetensors")
    loaded = dims.load(tmp_path / "scaled.safetensors", model=model)
    assert loaded.surface.likelihood == scaled.surface.likelihood
    assert torch.equal(loaded.predict(x).samples, scaled.predict(x).samples)
    again = temperature_scaling(loaded, rows)
    assert again.settings["temperature"] == pytest.approx(temperature, rel=1e-9)
    assert again.loss.isnan().all()
    network_alone = temperature_scaling(posterior, rows)
    assert len(network_alone) == 1
    assert torch.equal(network_alone.parameters[0], posterior.map_parameters)


@pytest.mark.parametrize("inner", [dims.Categorical(), dims.Categorical(0.1), dims.Bernoulli()])
def test_a_tempered_likelihood_keeps_the_contract(inner: dims.Likelihood) -> None:
    outputs = 3 if isinstance(inner, dims.Categorical) else 1
    labels, smoothed = torch.arange(7) % max(outputs, 2), inner.label_smoothing > 0
    check_likelihood(Tempered(inner, 2.5), randn(7, outputs), labels, density=not smoothed)


def test_held_out_rows_that_set_no_temperature_give_a_warning() -> None:
    surface = classifier(3)
    x = randn(20, 3, seed=2)
    labels = surface.predict(surface.initial.unsqueeze(0), x)[0].argmax(-1)
    with pytest.warns(dims.errors.TemperatureWarning, match="classified right"):
        assert temperature_scaling(surface, (x, labels)).settings["temperature"] == 1.0
    worst = surface.predict(surface.initial.unsqueeze(0), x)[0].argmin(-1)
    with pytest.warns(dims.errors.TemperatureWarning, match="equal probabilities"):
        assert temperature_scaling(surface, (x, worst)).settings["temperature"] == 100


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_refused() -> None:
    surface = classifier(3)
    with pytest.raises(TypeError, match="draws: expected draws"):
        temperature_scaling(network(), class_data())
    with pytest.raises(ValueError, match="already seen"):
        temperature_scaling(surface, 0.2)
    with pytest.raises(ValueError, match="validation"):
        temperature_scaling(surface, None)
    problem = linear_regression()
    x = randn(5, 2)
    exact = problem.model(x).detach()
    regression = dims.LossSurface(problem.model, problem.data, "regression")
    with pytest.raises(ValueError, match="without any error"):
        temperature_scaling(regression, (x, exact))
    none = deep_ensemble([network(0, 3)], class_data(), "classification").select([])
    with pytest.raises(ValueError, match="there are none"):
        temperature_scaling(none, class_data())
