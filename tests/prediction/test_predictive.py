"""Predictives against plain loops and closed forms, and predictions in bounded memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor, nn

import dims
from dims import metrics
from dims.prediction import predictive
from dims.prediction.predictive import ClassificationPredictive, RegressionPredictive
from draws_problems import KINDS, Pair, draws_of, looped, mlp, problem, random_inputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_agree_with_a_plain_loop(kind: str, dtype: torch.dtype) -> None:
    surface, x = problem(kind, dtype)
    draws = draws_of(surface)
    p = draws.predict(x)
    outputs = looped(surface, draws.parameters, x)
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {}
    if isinstance(p, RegressionPredictive):
        expected = outputs
    elif kind == "one logit":
        expected = torch.cat([1 - outputs.sigmoid(), outputs.sigmoid()], -1)
    else:
        expected = outputs.softmax(-1)
    assert p.samples.dtype == p.mean.dtype == p.variance.dtype == dtype
    torch.testing.assert_close(p.samples, expected, **tolerance)
    torch.testing.assert_close(p.mean, expected.mean(0), **tolerance)


def test_gaussian_moments_are_those_of_the_mixture() -> None:
    outputs = torch.tensor([[[1.0, 0.0]], [[3.0, 0.0]], [[5.0, 6.0]]], dtype=torch.float64)
    p = dims.Gaussian(0.5).predictive(outputs)
    assert p.mean.tolist() == [[3.0, 2.0]]
    torch.testing.assert_close(p.epistemic, torch.tensor([[8 / 3, 8.0]], dtype=torch.float64))
    assert p.aleatoric.tolist() == [[0.25, 0.25]]
    torch.testing.assert_close(p.variance, p.aleatoric + p.epistemic)
    # By quadrature over the mixture density.
    grid = np.linspace(-5, 12, 20_001)
    density = scipy.stats.norm.pdf(grid[:, None], outputs[:, 0, 1].numpy(), 0.5).mean(axis=1)
    mean = np.trapezoid(grid * density, grid)
    variance = np.trapezoid((grid - mean) ** 2 * density, grid)
    assert p.variance[0, 1].item() == pytest.approx(variance, rel=1e-9)


def test_one_draw_has_no_epistemic_part() -> None:
    surface, x = problem("three outputs")
    p = draws_of(surface, rows=1).predict(x)
    assert p.epistemic.abs().max() == 0
    assert (p.variance == surface.likelihood.noise_std**2).all()
    surface, x = problem("four classes")
    q = draws_of(surface, rows=1).predict(x)
    assert isinstance(q, ClassificationPredictive)
    assert q.mutual_information.max() < 1e-12


@pytest.mark.parametrize("kind", ["one logit", "two logits", "four classes"])
def test_class_uncertainties_agree_with_scipy(kind: str) -> None:
    surface, x = problem(kind)
    p = draws_of(surface, scale=2.0).predict(x)
    assert isinstance(p, ClassificationPredictive)
    samples = p.samples.numpy()
    mean = samples.mean(axis=0)
    np.testing.assert_allclose(p.probabilities, mean, rtol=1e-12)
    np.testing.assert_allclose(p.log_probabilities.exp(), samples, rtol=1e-12)
    np.testing.assert_allclose(p.entropy, scipy.stats.entropy(mean, axis=-1), rtol=1e-10)
    divergence = scipy.stats.entropy(samples, mean[None], axis=-1).mean(axis=0)
    np.testing.assert_allclose(p.mutual_information, divergence, rtol=1e-8, atol=1e-12)
    assert p.mutual_information.max() > 0.01
    # One-hot labels: the variances of an indicator.
    np.testing.assert_allclose(p.variance, mean * (1 - mean), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(p.epistemic, samples.var(axis=0), rtol=1e-9, atol=1e-12)
    assert torch.equal(p.mean, p.probabilities)


def test_two_certain_draws_that_contradict_each_other() -> None:
    logits = torch.tensor([[[900.0, -900.0]], [[-900.0, 900.0]]])
    p = dims.Categorical().predictive(logits)
    assert isinstance(p, ClassificationPredictive)
    assert p.entropy.item() == pytest.approx(math.log(2))
    assert p.mutual_information.item() == pytest.approx(math.log(2))
    assert p.aleatoric.abs().max() == 0
    assert p.epistemic.tolist() == [[0.25, 0.25]]
    q = dims.Bernoulli().predictive(torch.tensor([[[900.0]], [[-900.0]]]))
    assert isinstance(q, ClassificationPredictive)
    assert q.log_probabilities.tolist() == [[[-900.0, 0.0]], [[0.0, -900.0]]]


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_are_those_of_the_metrics_module(kind: str) -> None:
    surface, x = problem(kind)
    p = draws_of(surface).predict(x)
    if isinstance(p, RegressionPredictive):
        y = random_inputs(9, surface.outputs)
        expected = metrics.regression_metrics(p.samples, y, 0.3)
        assert p.metrics(y.numpy()) == expected
        assert p.metrics(y, level=0.5) != expected
        if kind == "one output":
            assert p.metrics(y.squeeze(-1)) == expected
    else:
        y = torch.arange(9) % 2
        expected = metrics.classification_metrics(p.samples.log(), y)
        for given in (y, y.tolist(), y.unsqueeze(-1), y.double()):
            found = p.metrics(given)
            for reading, values in expected.items():
                assert found[reading] == pytest.approx(values, rel=1e-10)
    with pytest.raises(ValueError, match="targets: "):
        p.metrics(y[:4])


def test_memory_budget_changes_nothing_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, x = problem("four classes")
    sizes: list[tuple[int, int]] = []
    for method in ("dims", "linla"):
        expected = draws_of(wide, method).predict(x)
        assert isinstance(expected, ClassificationPredictive)
        # 64 bytes: a single row and point at a time; 3 000: a few.
        for budget in (64, 3_000):
            narrow, _ = problem("four classes", memory_budget=budget)
            network = narrow.network

            def spy(tensors: dict, inputs: Tensor, *module: nn.Module, network=network) -> Tensor:
                sizes.append((len(inputs), budget))  # noqa: B023
                return network(tensors, inputs, *module)

            monkeypatch.setattr(narrow, "network", spy)
            monkeypatch.setattr(predictive, "NUMBERS_AT_ONCE", budget)
            p = draws_of(narrow, method).predict(x)
            assert isinstance(p, ClassificationPredictive)
            torch.testing.assert_close(p.samples, expected.samples, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(p.entropy, expected.entropy, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(p.variance, expected.variance, rtol=1e-12, atol=1e-14)
    assert sum(1 for n, budget in sizes if budget == 64 and n == 1) >= 2 * 9 * 5
    assert any(1 < n < 9 for n, budget in sizes if budget == 3_000)


@pytest.mark.parametrize("as_dict", [True, False])
def test_inputs_of_several_parts(as_dict: bool) -> None:
    torch.manual_seed(0)
    model = Pair().double()
    x, words = random_inputs(8, 2), torch.arange(24).reshape(8, 3) % 5
    inputs = {"x": x, "words": words} if as_dict else [x, words]
    surface = dims.LossSurface(model, (inputs, torch.arange(8) % 2), "classification")
    draws = draws_of(surface)
    p = draws.predict(inputs)
    expected = looped(surface, draws.parameters, inputs).softmax(-1)
    torch.testing.assert_close(p.samples, expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="trained on points"):
        draws.predict(x)


def test_bad_inputs_are_named() -> None:
    surface, x = problem("one output")
    draws = draws_of(surface)
    nothing = x.clone()
    nothing[3, 1] = math.nan
    for bad, message in [
        (nothing, "NaN or infinite values; impute"),
        (x[:0], "no points"),
        (x[:, :2], r"refuses them .*trained on points float\[3\], these are float\[2\]"),
        (x[0], r"trained on points float\[3\], these are float\[\]"),
        (x.unsqueeze(-1), r"these are float\[3,1\]"),
        (x.long(), r"refuses them .*these are int64\[3\]"),
        ([x, x], r"trained on points float\[3\], these are \['float\[3\]', 'float\[3\]'\]"),
        ({"x": x}, "trained on points"),
    ]:
        with pytest.raises(ValueError, match=message):
            draws.predict(bad)


@pytest.mark.usefixtures("unchecked")
def test_numpy_inputs_take_the_precision_of_the_model() -> None:
    surface, x = problem("one output", torch.float32)
    draws = draws_of(surface)
    p = draws.predict(x.double().numpy())  # type: ignore[arg-type]
    assert p.samples.dtype == torch.float32
    assert torch.equal(p.samples, draws.predict(x).samples)


def test_broken_draws_are_named() -> None:
    surface, x = problem("four classes")
    draws = draws_of(surface)
    draws.parameters[2, 0] = math.nan
    with pytest.raises(ValueError, match=r"outputs of \[2\] are NaN"):
        draws.predict(x)
    kept = draws.select(draws.parameters.isfinite().all(dim=1))
    assert kept.predict(x).samples.shape == (4, 9, 4)
    with pytest.raises(ValueError, match="none to predict with"):
        draws.select([]).predict(x)


def test_a_likelihood_without_a_distribution_is_refused() -> None:
    class Laplacian(dims.Likelihood):
        task = "regression"
        negative_log = constant = output_hessian = check_targets = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match=r"Laplacian.*distribution.*name"):
        Laplacian()  # type: ignore[abstract]


def test_predicting_leaves_the_model_and_the_draws_as_they_were() -> None:
    model = mlp(3, 4)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    surface = dims.LossSurface(
        model, (random_inputs(12, 3), torch.arange(12) % 4), "classification"
    )
    draws = draws_of(surface)
    parameters = draws.parameters.clone()
    x = random_inputs(9, 3)
    first, second = draws.predict(x), draws.predict(x)
    assert torch.equal(first.samples, second.samples)
    assert torch.equal(draws.parameters, parameters)
    assert not first.samples.requires_grad
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)
    assert all(p.requires_grad for p in model.parameters())
