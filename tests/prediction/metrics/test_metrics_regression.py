"""Regression metrics against SciPy, a brute-force integral or a closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats
import torch
from metrics_problems import (
    random_regression,
)

from dims import metrics


@pytest.mark.parametrize("outputs", [None, 1, 3])
def test_gaussian_metrics_agree_with_scipy(outputs: int | None) -> None:
    axes = 1 if outputs is None else 2
    shape = (6, 40) if outputs is None else (6, 40, outputs)
    means, targets = random_regression(*shape, axes=axes)
    noise = torch.rand(shape, generator=torch.Generator().manual_seed(1)).double() + 0.3
    result = metrics.regression_metrics(means, targets, noise, level=0.8)
    m, y, s = means.numpy(), targets.numpy(), noise.numpy()
    over = tuple(range(1, m.ndim))

    log_density = scipy.stats.norm.logpdf(y, m, s).reshape(6, 40, -1).sum(axis=-1)
    low, high = scipy.stats.norm.interval(0.8, m, s)
    draws = {
        "nll": -log_density.mean(axis=1),
        "rmse": np.sqrt(((y - m) ** 2).mean(axis=over)),
        "coverage": ((low <= y) & (y <= high)).mean(axis=over),
    }
    ensemble = {
        "nll": -np.log(np.exp(log_density).mean(axis=0)).mean(),
        "rmse": np.sqrt(((y - m.mean(axis=0)) ** 2).mean()),
    }
    for name, values in draws.items():
        assert result["per_sample"][name] == pytest.approx(values.mean(), rel=1e-10)
        assert result["per_sample_error"][name] == pytest.approx(scipy.stats.sem(values), rel=1e-9)
    for name, value in ensemble.items():
        assert result["ensemble"][name] == pytest.approx(value, rel=1e-10)


def test_mixture_coverage_agrees_with_quantiles_found_by_bisection() -> None:
    means, targets = random_regression(5, 60)
    m, y, level = means.numpy(), targets.numpy(), 0.7

    def quantile(n: int, probability: float) -> float:
        def excess(x: float) -> float:
            return float(scipy.stats.norm.cdf(x, m[:, n], 0.4).mean()) - probability

        return float(scipy.optimize.brentq(excess, -20, 20))

    inside = [
        quantile(n, (1 - level) / 2) <= y[n] <= quantile(n, (1 + level) / 2) for n in range(len(y))
    ]
    assert 0.3 < np.mean(inside) < 0.9
    ours = metrics.mixture_coverage(means, targets, 0.4, level)
    assert ours.item() == pytest.approx(np.mean(inside), abs=1e-12)


@pytest.mark.parametrize("draws", [1, 2, 5])
def test_crps_agrees_with_its_integral(draws: int) -> None:
    means, targets = random_regression(draws, 8, seed=draws)
    std = torch.linspace(0.2, 1.5, draws, dtype=torch.float64).unsqueeze(-1).expand(draws, 8)

    def integral(m: np.ndarray, s: np.ndarray, y: float) -> float:
        """∫ (F(x) − [x ≥ y])² dx, cut at the jump."""

        def square(x: float, step: float) -> float:
            return (float(scipy.stats.norm.cdf(x, m, s).mean()) - step) ** 2

        left = scipy.integrate.quad(square, -20, y, args=(0.0,), epsabs=1e-10, limit=200)
        right = scipy.integrate.quad(square, y, 20, args=(1.0,), epsabs=1e-10, limit=200)
        return float(left[0] + right[0])

    m, s, y = means.numpy(), std.numpy(), targets.numpy()
    mixture = np.mean([integral(m[:, n], s[:, n], y[n]) for n in range(8)])
    assert metrics.mixture_crps(means, targets, std).item() == pytest.approx(mixture, abs=1e-8)
    last = np.mean([integral(m[-1:, n], s[-1:, n], y[n]) for n in range(8)])
    assert metrics.gaussian_crps(means, targets, std)[-1].item() == pytest.approx(last, abs=1e-8)


def test_crps_closed_forms() -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    standard = metrics.gaussian_crps(zero, zero, 1.0).item()
    assert standard == pytest.approx((math.sqrt(2) - 1) / math.sqrt(math.pi))
    # Narrow noise leaves the score of the bare draws: mean |xᵢ − y| − ½ mean |xᵢ − xⱼ|.
    means, targets = random_regression(7, 5, 2, axes=2)
    x, y = means.numpy(), targets.numpy()
    bare = np.abs(x - y).mean(axis=0) - 0.5 * np.abs(x[:, None] - x[None]).mean(axis=(0, 1))
    ours = metrics.mixture_crps(means, targets, 1e-9)
    assert ours.item() == pytest.approx(bare.mean(), abs=1e-8)
    result = metrics.regression_metrics(means, targets, 1e-9)
    assert result["ensemble"]["crps"] == pytest.approx(bare.mean(), abs=1e-8)
    assert result["per_sample"]["crps"] == pytest.approx(np.abs(x - y).mean(), abs=1e-8)


def test_coverage_of_a_true_model_is_its_level() -> None:
    # Targets at the quantiles (n + ½)/N of the predictive: exactly `level` of them lie inside.
    targets = torch.from_numpy(scipy.stats.norm.ppf((np.arange(1000) + 0.5) / 1000, 2.0, 3.0))
    for level in (0.5, 0.9):
        inside = metrics.coverage(torch.full_like(targets, 2.0), targets, 3.0, level)
        assert inside.item() == pytest.approx(level, abs=1e-9)


def test_noise_broadcasts_to_the_trailing_axes() -> None:
    means, targets = random_regression(4, 10, 3, axes=2)
    per_output = torch.tensor([0.5, 1.0, 2.0])
    short = metrics.regression_metrics(means, targets, per_output)
    full = metrics.regression_metrics(means, targets, per_output.double().expand(4, 10, 3))
    for reading, values in full.items():
        assert short[reading] == pytest.approx(values, rel=1e-12), reading
    apart = metrics.gaussian_nll(means[..., 2], targets[:, 2], 2.0)
    first_two = metrics.gaussian_nll(means[..., :2], targets[:, :2], per_output[:2])
    torch.testing.assert_close(metrics.gaussian_nll(means, targets, per_output), apart + first_two)
