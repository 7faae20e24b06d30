"""Likelihoods beyond the Gaussian and classes: scipy's densities, dense curvature, simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

import dims
from dims.curvature import fit_curvature
from dims.model.likelihoods.base import second_derivative

CUTS = (-0.7, 0.2, 1.1)
STDS = (0.1, 1.0, 10.0)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def ordinal_pmf(k: Any, f: Any) -> Any:
    ends = np.array([-np.inf, *CUTS, np.inf])
    return scipy.stats.logistic.cdf(ends[k + 1] - f) - scipy.stats.logistic.cdf(ends[k] - f)


def softmax_of(outputs: Tensor, labels: Tensor, known: Tensor) -> Any:
    """log p of the labels of tokens (N, T, C), 0 where there is none."""
    log_p = scipy.special.log_softmax(outputs.view(*labels.shape, -1).numpy(), axis=-1)
    chosen = np.take_along_axis(log_p, labels.clamp(min=0).numpy()[..., None], -1)[..., 0]
    return np.where(known.numpy(), chosen, 0.0).sum(-1)


TAGS = torch.tensor([[0, 2, -100], [1, 1, 0], [-100, -100, 2], [2, 0, 1]])
# Likelihood, number of outputs, targets of four points, and scipy's log p of each point (counts:
# less the factorials, which stay out of the loss).
CASES: dict[str, tuple[dims.Likelihood, int, Tensor, Callable[[Tensor, Tensor], Any]]] = {
    "per output": (
        dims.GaussianPerOutput(STDS),
        3,
        random(4, 3, seed=1) * torch.tensor(STDS),
        lambda f, y: scipy.stats.norm.logpdf(y, f, STDS).sum(-1),
    ),
    "student": (
        dims.StudentT(3.5, 0.4),
        2,
        random(4, 2, seed=1),
        lambda f, y: scipy.stats.t.logpdf(y, 3.5, f, 0.4).sum(-1),
    ),
    "poisson": (
        dims.Poisson(),
        2,
        torch.tensor([[0, 1], [3, 0], [2, 7], [1, 1]]),
        lambda f, y: (
            scipy.stats.poisson.logpmf(y.numpy(), f.exp().numpy())
            + scipy.special.gammaln(y.numpy() + 1)
        ).sum(-1),
    ),
    "multi-label": (
        dims.MultiLabelBernoulli(),
        3,
        torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]]),
        lambda f, y: scipy.stats.bernoulli.logpmf(y.numpy(), torch.sigmoid(f).numpy()).sum(-1),
    ),
    "ordinal": (
        dims.Ordinal(CUTS),
        1,
        torch.tensor([0, 3, 1, 2]),
        lambda f, y: np.log(ordinal_pmf(y.numpy(), f[:, 0].numpy())),
    ),
    "tokens": (
        dims.PositionCategorical(3),
        9,
        TAGS,
        lambda f, y: softmax_of(f, y, y != -100),
    ),
    "pixels": (
        dims.PositionCategorical(3, class_axis=1, ignore_index=9),
        9,
        torch.where(TAGS == -100, 9, TAGS),
        lambda f, y: softmax_of(f.view(4, 3, 3).mT.reshape(4, 9), y % 9, y != 9),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_scipys_density(case: str) -> None:
    likelihood, width, targets, log_density = CASES[case]
    outputs = random(4, width)
    checked = likelihood.check_targets(outputs, targets)
    found = likelihood.negative_log(outputs, checked) + likelihood.constant(width)
    np.testing.assert_allclose(found, -log_density(outputs, checked), rtol=1e-12)
    scores = likelihood.predictive(outputs.unsqueeze(0).clone()).log_scores(targets)[0]
    factorials = torch.lgamma(targets + 1.0).sum(-1) if case == "poisson" else 0.0
    np.testing.assert_allclose(scores + factorials, -found, rtol=1e-6)


def expected_hessian(case: str, likelihood: dims.Likelihood, f: Tensor, y: Tensor) -> Tensor:
    """E[∂²(−log p)/∂f²] by quadrature or summation, or at the targets where y does not enter."""

    def at(targets: Tensor) -> Tensor:
        return second_derivative(lambda g: likelihood.negative_log(g, targets), f)

    if case == "ordinal":
        share = [ordinal_pmf(np.full(len(f), k), f[:, 0].numpy()) for k in range(len(CUTS) + 1)]
        terms = [at(torch.full((len(f),), k)) for k in range(len(CUTS) + 1)]
        return sum(torch.as_tensor(p)[:, None, None] * t for p, t in zip(share, terms, strict=True))  # type: ignore[return-value]
    if case == "student":
        assert isinstance(likelihood, dims.StudentT)
        nu, s = likelihood.degrees, likelihood.scale

        def curvature(z: float) -> float:  # of ½(ν + 1)·log(1 + z²/(νs²)) in z
            u = z * z / (nu * s * s)
            value = (nu + 1) / (nu * s * s) * (1 - u) / (1 + u) ** 2
            return value * scipy.stats.t.pdf(z, nu, 0, s)

        value = scipy.integrate.quad(curvature, -np.inf, np.inf)[0]
        return torch.diag_embed(torch.full_like(f, value))
    return at(y)


@pytest.mark.parametrize("case", CASES)
def test_the_ggn_is_the_dense_one(case: str) -> None:
    """Σ JᵀΛJ with J and Λ by plain autograd, and the moving metric's and KFAC's view of it."""
    likelihood, width, targets, _ = CASES[case]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, width)).double()
    x = random(4, 2, seed=5)
    surface = dims.LossSurface(model, (x, targets), likelihood, 0.3)
    theta = surface.initial

    def outputs(theta: Tensor) -> Tensor:
        return functional_call(model, surface.vector.unflatten(theta), x)

    jacobian, f = jacrev(outputs)(theta), outputs(theta).detach()
    weights = expected_hessian(case, likelihood, f, surface.data.targets)
    dense = torch.einsum("nck,ncd,ndl->kl", jacobian, weights, jacobian).detach()
    for structure in ("full", "diagonal"):
        found = fit_curvature(surface, theta, structure).dense()
        expected = dense if structure == "full" else dense.diagonal().diag()
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)
    low_rank = fit_curvature(surface, theta, "low_rank", rank=surface.size)
    torch.testing.assert_close(low_rank.dense(), dense, rtol=1e-2, atol=1e-2 * float(dense.max()))
    # With one layer KFAC's block of a bias is exact.
    layer = dims.LossSurface(model, (x, targets), likelihood, parameters="2.bias")
    own = slice(surface.size - width, None)
    bias = fit_curvature(layer, layer.initial, "kronecker").dense()
    torch.testing.assert_close(bias, dense[own, own], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("case", ["tokens", "pixels"])
def test_the_moving_metric_leaves_out_ignored_positions(case: str) -> None:
    from dims.mechanics.metric.curvature import row_products

    likelihood, width, targets, _ = CASES[case]
    model = nn.Linear(2, width).double()
    surface = dims.LossSurface(model, (random(4, 2), targets), likelihood, 0.3)
    theta = surface.initial
    dense = fit_curvature(surface, theta, "full").dense() + 0.3 * torch.eye(surface.size)
    thetas = theta.expand(2, -1)
    vectors = random(2, 5, surface.size)
    found = row_products(surface, thetas, None)(vectors)
    torch.testing.assert_close(found, vectors @ dense, rtol=1e-6, atol=1e-8)


SIMULATED: dict[str, tuple[dims.Likelihood, int, Callable[[Any, Any], Any]]] = {
    "per output": (
        dims.GaussianPerOutput(STDS),
        3,
        lambda f, random: random.normal(f, STDS),
    ),
    "student": (
        dims.StudentT(3.5, 0.4),
        2,
        lambda f, random: f + 0.4 * random.standard_t(3.5, size=f.shape),
    ),
    "poisson": (dims.Poisson(), 2, lambda f, random: random.poisson(np.exp(f))),
    "ordinal": (
        dims.Ordinal(CUTS),
        1,
        lambda f, random: (f + random.logistic(size=f.shape) > np.array(CUTS)).sum(-1)[..., None],
    ),
}


@pytest.mark.parametrize("case", SIMULATED)
def test_intervals_hold_what_they_say(case: str) -> None:
    """Targets simulated by numpy from the mixture of five draws."""
    likelihood, width, simulate = SIMULATED[case]
    outputs = 0.8 * random(5, 6, width)
    low, high = likelihood.predictive(outputs.clone()).interval(0.9)
    generator, count = np.random.default_rng(0), 20_000
    draw = generator.integers(0, 5, size=(count, 6))
    chosen = outputs.numpy()[draw, np.arange(6)]
    targets = simulate(chosen, generator)
    inside = ((low.numpy() <= targets) & (targets <= high.numpy())).mean(axis=0)
    if case in ("per output", "student"):
        slack = 0.02  # quantiles of Student's t come from about 4000 samples
        assert np.abs(inside - 0.9).max() < slack
    else:  # whole numbers: at least that much, and less without the ends
        assert inside.min() > 0.9 - 0.01
        within = ((low.numpy() < targets) & (targets < high.numpy())).mean(axis=0)
        assert within.max() < 0.9 + 0.01


def test_multi_label_probabilities_are_those_of_simulation() -> None:
    outputs = random(5, 6, 3)
    predictive = dims.MultiLabelBernoulli().predictive(outputs.clone())
    probability = scipy.special.expit(outputs.numpy())
    np.testing.assert_allclose(predictive.mean, probability.mean(0), rtol=1e-12)
    np.testing.assert_allclose(
        predictive.variance, probability.mean(0) * (1 - probability.mean(0)), rtol=1e-12
    )


def test_positions_report_both_kinds_of_nll() -> None:
    likelihood = dims.PositionCategorical(3)
    outputs = random(2, 4, 9)
    predictive = likelihood.predictive(outputs.clone())
    assert predictive.probabilities.shape == (4, 3, 3)
    assert predictive.entropy.shape == predictive.mutual_information.shape == (4, 3)
    found = predictive.metrics(TAGS)
    known = TAGS != -100
    log_p = np.stack([softmax_of(f, TAGS, known) for f in outputs])
    assert found["per_sample"]["nll"] == pytest.approx(-log_p.mean())
    expected = -(scipy.special.logsumexp(log_p, axis=0) - math.log(2)).mean()
    assert found["ensemble"]["nll"] == pytest.approx(expected)
    each = -log_p.sum() / 2 / int(known.sum())
    assert found["per_sample"]["nll_per_position"] == pytest.approx(each)
    right = (outputs.view(2, 4, 3, 3).argmax(-1) == TAGS)[:, known].double().mean()
    assert found["per_sample"]["accuracy"] == pytest.approx(float(right))


def test_noise_of_outputs_on_different_scales_is_found() -> None:
    """One σ for noises of 0.1, 1 and 10 would be about 5.8 for all."""
    x = random(300, 2)
    truth = x @ random(2, 3, seed=3) * torch.tensor(STDS)
    y = truth + random(300, 3, seed=4) * torch.tensor(STDS)
    model = nn.Linear(2, 3).double()
    with torch.no_grad():
        solution = torch.linalg.lstsq(torch.cat([x, torch.ones(300, 1)], 1).double(), y).solution
        model.weight.copy_(solution[:2].T)
        model.bias.copy_(solution[2])
    posterior = dims.fit(model, (x, y), "regression", tune=True)
    found = posterior.surface.likelihood
    assert isinstance(found, dims.GaussianPerOutput)
    np.testing.assert_allclose(found.noise_stds, STDS, rtol=0.1)
    assert posterior.noise_std == pytest.approx(found.noise_std)
    spread = posterior.sample(5, "la", progress=False).predict(x).aleatoric.sqrt()
    np.testing.assert_allclose(spread[0], found.noise_stds, rtol=1e-6)
    given = dims.fit(model, (x, y), dims.GaussianPerOutput(STDS), prior_precision=1e-3, tune=True)
    assert given.surface.likelihood == dims.GaussianPerOutput(STDS)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
@pytest.mark.parametrize("case", CASES)
def test_they_go_all_the_way(case: str, tmp_path: Path) -> None:
    likelihood, width, targets, _ = CASES[case]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, width)).double()
    x = random(4, 2, seed=5)
    posterior = dims.fit(model, (x, targets), likelihood, tune=False)
    draws = posterior.sample(2, "rla", max_time=0.05, progress=False)
    assert draws.energy_violation.max() < 1e-2
    scores = draws.predict(x).metrics(targets)["ensemble"]
    assert math.isfinite(scores["nll"])
    path = tmp_path / "run.safetensors"
    draws.save(path)
    for data in (None, (x, targets)):
        loaded = dims.load(path, model, data)
        assert loaded.surface.likelihood == likelihood
        assert torch.equal(loaded.predict(x).mean, draws.predict(x).mean)


@pytest.mark.parametrize(
    ("likelihood", "width", "targets", "message"),
    [
        (dims.Poisson(), 1, torch.tensor([0.0, 1.5]), "whole numbers"),
        (dims.Poisson(), 1, torch.tensor([0, -1]), "whole numbers"),
        (dims.MultiLabelBernoulli(), 3, torch.tensor([0, 2]), "for class numbers use Categorical"),
        (dims.MultiLabelBernoulli(), 2, torch.tensor([[0, 2], [1, 0]]), "must be 0 or 1"),
        (dims.Ordinal(CUTS), 2, torch.tensor([0, 1]), "one output per point"),
        (dims.Ordinal(CUTS), 1, torch.tensor([0, 4]), r"0\.\.3"),
        (dims.PositionCategorical(3), 7, torch.zeros(2, 2), "not classes=3 at a whole number"),
        (dims.PositionCategorical(3), 6, torch.zeros(2, 3), "each of 2 positions"),
        (dims.PositionCategorical(3), 6, torch.full((2, 2), 3), r"0\.\.2 or be -100"),
        (dims.PositionCategorical(3), 6, torch.full((2, 2), -100), "every label is -100"),
        (dims.GaussianPerOutput((1.0,)), 2, torch.zeros(2, 2), "1 noises, the model gives 2"),
    ],
)
def test_targets_that_do_not_fit_are_named(
    likelihood: dims.Likelihood, width: int, targets: Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        likelihood.check_targets(torch.zeros(2, width), targets)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dims.StudentT(2.0), "degrees: must be above 2"),
        (lambda: dims.StudentT(4.0, 0.0), "scale"),
        (lambda: dims.Ordinal((1.0, 0.0)), "that rise"),
        (lambda: dims.Ordinal(()), "that rise"),
        (lambda: dims.GaussianPerOutput((1.0, -1.0)), "noise_stds"),
        (lambda: dims.GaussianPerOutput(()), "noise_stds: there are none"),
        (lambda: dims.PositionCategorical(3, class_axis=0), "class_axis"),
        (lambda: dims.PositionCategorical(3, ignore_index=2), "ignore_index: 2 is a class"),
    ],
)
def test_settings_out_of_range_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_classifier_of_positions_needs_a_likelihood_that_says_so() -> None:
    """Without one, classes of all positions would pass for classes of a point."""
    model = nn.Linear(2, 3).double()
    with pytest.raises(ValueError, match=r"outputs must have shape \(points, outputs\)"):
        dims.LossSurface(model, (random(4, 5, 2), torch.zeros(4).long()), "classification")
