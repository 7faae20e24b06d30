"""Quantiles and intervals of mixtures against scipy, closed forms and brute-force sampling."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from torch import Tensor, distributions

import dims
from cases import first
from dims.prediction import predictive as module
from dims.prediction.predictive import DistributionPredictive, RegressionPredictive
from draws_problems import draws_of, problem
from own_likelihoods import Poisson, StudentT

LEVELS = [0.001, 0.025, 0.3, 0.5, 0.9, 0.975, 0.9999]


def mixture(draws: int, points: int = 20, outputs: int = 2, seed: int = 0) -> RegressionPredictive:
    """Gaussians of different means and widths, with weights of which one is 0."""
    generator = torch.Generator().manual_seed(seed)
    means = 3 * torch.randn(draws, points, outputs, generator=generator, dtype=torch.float64)
    stds = 0.05 + torch.rand(draws, points, outputs, generator=generator, dtype=torch.float64)
    weights = torch.rand(draws, generator=generator, dtype=torch.float64)
    weights[-1] = 0.0 if draws > 1 else 1.0
    return RegressionPredictive(means, stds, weights / weights.sum())


def by_scipy(p: RegressionPredictive, level: float, n: int, c: int) -> float:
    means, stds = p.outputs[:, n, c].numpy(), p._stds[:, n, c].numpy()
    weights = np.full(len(means), 1 / len(means)) if p.weights is None else p.weights.numpy()

    def excess(x: float) -> float:
        return float(weights @ scipy.stats.norm.cdf(x, means, stds)) - level

    return float(scipy.optimize.brentq(excess, -100, 100, xtol=1e-14, rtol=1e-14))


def share_below(p: RegressionPredictive, x: Tensor) -> np.ndarray:
    shares = scipy.stats.norm.cdf(x.numpy(), p.outputs.numpy(), p._stds.numpy())
    return np.average(shares, axis=0, weights=p.weights)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("draws", first([2, 7, 40]))
def test_quantiles_of_gaussians_agree_with_scipy(draws: int, weighted: bool) -> None:
    p = mixture(draws, seed=draws)
    p = p if weighted else p.with_weights(None)
    found = p.quantile(LEVELS)
    assert found.shape == (len(LEVELS), 20, 2)
    for row, level in enumerate(LEVELS):
        np.testing.assert_allclose(share_below(p, found[row]), level, rtol=0, atol=1e-13)
        if draws > 2:  # between two components F is flat, and so x is not determined
            expected = [[by_scipy(p, level, n, c) for c in range(2)] for n in range(20)]
            np.testing.assert_allclose(found[row], expected, rtol=1e-7, atol=1e-7)
    assert torch.equal(p.quantile(LEVELS[1]), found[1])
    assert torch.equal(p.quantile(torch.tensor(LEVELS, dtype=torch.float64)), found)
    assert (found.diff(dim=0) > 0).all()


def test_quantiles_of_one_draw_are_in_closed_form() -> None:
    p = mixture(1)
    expected = scipy.stats.norm.ppf(0.9, p.outputs[0], p._stds[0])
    np.testing.assert_allclose(p.quantile(0.9), expected, rtol=1e-14)
    # All weight on one of many.
    many = mixture(5).with_weights(torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]))
    expected = scipy.stats.norm.ppf(0.9, many.outputs[2], many._stds[2])
    np.testing.assert_allclose(many.quantile(0.9), expected, rtol=1e-12)


def test_far_components_with_a_gap_between_them() -> None:
    means = torch.tensor([-1e6, 0.0, 1e6], dtype=torch.float64).view(3, 1, 1)
    p = RegressionPredictive(means, 1e-3, torch.tensor([0.25, 0.5, 0.25]))
    found = p.quantile([0.1, 0.2499, 0.25, 0.2501, 0.5, 0.9]).view(-1)
    inner = scipy.stats.norm.ppf([0.1 / 0.25, 0.2499 / 0.25], -1e6, 1e-3)
    np.testing.assert_allclose(found[:2], inner, rtol=0, atol=1e-8)
    assert -1e6 < found[2] < 0  # every x between the two has F(x) = 0.25
    assert found[3].item() == pytest.approx(scipy.stats.norm.ppf(0.0002, 0, 1e-3), abs=1e-8)
    assert found[4].item() == pytest.approx(0.0, abs=1e-8)
    assert (found.diff() > 0).all()


def test_intervals_hold_their_share_of_sampled_targets() -> None:
    p = mixture(6, points=3)
    assert p.weights is not None
    generator = torch.Generator().manual_seed(0)
    chosen = torch.multinomial(p.weights, 200_000, replacement=True, generator=generator)
    noise = torch.randn(200_000, 3, 2, generator=generator, dtype=torch.float64)
    targets = p.outputs[chosen] + p._stds[chosen] * noise
    for level in (0.5, 0.95):
        low, high = p.interval(level)
        inside = ((low <= targets) & (targets <= high)).double().mean(dim=0)
        below = (targets < low).double().mean(dim=0)
        assert (inside - level).abs().max() < 5 * 0.5 / 200_000**0.5
        assert (below - 0.5 * (1 - level)).abs().max() < 5 * 0.5 / 200_000**0.5


@pytest.mark.parametrize("weighted", [True, False])
def test_coverage_is_that_of_the_intervals(weighted: bool) -> None:
    p = mixture(6, points=300)
    p = p if weighted else p.with_weights(None)
    targets = 3 * torch.randn(300, 2, generator=torch.Generator().manual_seed(1)).double()
    low, high = p.interval(0.8)
    inside = ((low <= targets) & (targets <= high)).double().mean().item()
    assert 0.3 < inside < 1
    assert p.metrics(targets, level=0.8)["ensemble"]["coverage"] == pytest.approx(inside)
    # A mixture is not the Gaussian of its moments.
    half = scipy.stats.norm.ppf(0.9) * p.variance.sqrt()
    rough = ((targets - p.mean).abs() <= half).double().mean().item()
    assert inside != rough


def test_points_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    p = mixture(5)
    expected = p.quantile(0.3)
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 30)
    assert torch.equal(p.quantile(0.3), expected)


def test_draws_predict_intervals_in_their_precision() -> None:
    surface, x = problem("three outputs", torch.float32)
    p = draws_of(surface).predict(x)
    low, high = p.interval(0.9)
    assert low.dtype == high.dtype == torch.float32
    assert low.shape == high.shape == (9, 3)
    assert (low < p.mean).all()
    assert (p.mean < high).all()


def as_given(targets: Tensor) -> Tensor:
    return targets


@pytest.mark.parametrize(
    ("distribution", "frozen"),
    [
        (distributions.Normal, lambda a, b: scipy.stats.norm(a, b)),
        (distributions.Gamma, lambda a, b: scipy.stats.gamma(a, scale=1 / b)),
        (distributions.LogNormal, lambda a, b: scipy.stats.lognorm(b, scale=np.exp(a))),
        (distributions.Laplace, lambda a, b: scipy.stats.laplace(a, b)),
        (distributions.Pareto, lambda a, b: scipy.stats.pareto(b + 2, scale=a)),
        (distributions.Uniform, lambda a, b: scipy.stats.uniform(a, b)),
    ],
)
def test_quantiles_of_other_distributions(distribution, frozen) -> None:
    generator = torch.Generator().manual_seed(3)
    first, second = 0.2 + torch.rand(2, 4, 5, 1, generator=generator, dtype=torch.float64)
    given = {
        distributions.Pareto: (first, second + 2),
        distributions.Uniform: (first, first + second),
    }.get(distribution, (first, second))
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    p = DistributionPredictive(distribution(*given), as_given, weights)
    before = torch.random.get_rng_state()
    for level in (0.02, 0.5, 0.97):
        found = p.quantile(level).numpy()
        shares = frozen(first.numpy(), second.numpy()).cdf(found)
        np.testing.assert_allclose(np.tensordot(weights, shares, 1), level, atol=1e-8)
    assert torch.equal(torch.random.get_rng_state(), before)
    # Coverage is that of the intervals, where every draw gives every target a density.
    if distribution in (distributions.Pareto, distributions.Uniform):
        return
    targets = distribution(*given).sample()[0]
    low, high = p.interval(0.6)
    inside = ((low <= targets) & (targets <= high)).double().mean().item()
    assert p.metrics(targets, level=0.6)["ensemble"]["coverage"] == pytest.approx(inside)


def test_distributions_without_a_cdf_are_sampled() -> None:
    counts = torch.tensor([0.5, 3.0, 20.0], dtype=torch.float64).log().view(1, 3, 1)
    p = Poisson().predictive(counts)
    before = torch.random.get_rng_state()
    low, high = p.interval(0.9)
    assert torch.equal(torch.random.get_rng_state(), before)
    for level, found in ((0.05, low), (0.95, high)):
        # Sampled probabilities are off by at most 5 standard errors.
        slack = 5 * (level * (1 - level) / 4096) ** 0.5
        rate = counts[0].exp().numpy()
        assert (found.numpy() >= scipy.stats.poisson.ppf(level - slack, rate)).all()
        assert (found.numpy() <= scipy.stats.poisson.ppf(level + slack, rate)).all()
    assert torch.equal(low, low.round())
    assert "coverage" not in p.metrics(torch.tensor([[0], [3], [20]]))["ensemble"]
    heavy = StudentT(1.0, 0.5).predictive(torch.zeros(2, 3, 1, dtype=torch.float64))
    weighted = heavy.with_weights(torch.tensor([1.0, 0.0]))
    for each in (heavy, weighted):  # Cauchy: neither mean nor variance exists
        shares = scipy.stats.cauchy(0, 0.5).cdf(each.quantile(0.8).numpy())
        np.testing.assert_allclose(shares, 0.8, atol=5 * (0.16 / 4096) ** 0.5)


def test_a_cauchy_distribution_has_quantiles_though_no_moments() -> None:
    cauchy = distributions.Cauchy(torch.tensor([[0.0], [1.0]]).double(), 1.0)
    p = DistributionPredictive(cauchy, as_given)
    share = scipy.stats.cauchy([0.0, 1.0], 1.0).cdf(p.quantile(0.3).item()).mean()
    assert share == pytest.approx(0.3, abs=5 * (0.21 / 4096) ** 0.5)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, float("nan"), [0.5, 1.5], [], [[0.5]]])
def test_bad_probabilities_are_named(q) -> None:
    with pytest.raises(ValueError, match="q: "):
        mixture(2).quantile(q)


def test_what_has_no_quantiles_says_so() -> None:
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        mixture(2).interval(95.0)
    classes = dims.Categorical().predictive(torch.randn(2, 3, 4))
    with pytest.raises(TypeError, match="quantile: classes have no order"):
        classes.interval(0.9)
