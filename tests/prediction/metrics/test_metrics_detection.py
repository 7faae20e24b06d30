"""Uncertainties and their detection of OOD inputs against SciPy and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats
import sklearn.metrics
import torch
from metrics_problems import (
    random_classification,
)

from dims import metrics


def test_uncertainties_agree_with_scipy_and_closed_forms() -> None:
    log_p, _ = random_classification(4, 30, 3)
    p = log_p.exp().numpy()
    entropy = scipy.stats.entropy(p, axis=-1)
    np.testing.assert_allclose(metrics.predictive_entropy(log_p), entropy, rtol=1e-12)
    np.testing.assert_allclose(metrics.maximum_probability(log_p), p.max(axis=-1), rtol=1e-12)
    divergence = scipy.stats.entropy(p, p.mean(axis=0, keepdims=True), axis=-1).mean(axis=0)
    np.testing.assert_allclose(metrics.mutual_information(log_p), divergence, rtol=1e-9)
    same = metrics.mutual_information(log_p[:1].repeat(3, 1, 1))
    assert 0 <= same.min() <= same.max() < 1e-12
    # Two certain draws that contradict each other: all uncertainty is disagreement.
    clash = torch.eye(2, dtype=torch.float64).log().unsqueeze(1)
    assert metrics.mutual_information(clash).item() == pytest.approx(math.log(2))
    assert metrics.predictive_entropy(clash).tolist() == [[0.0], [0.0]]


def test_ood_metrics_agree_with_sklearn() -> None:
    inside, _ = random_classification(5, 80, 4, seed=1, scale=2.0)
    outside, _ = random_classification(5, 60, 4, seed=2, scale=1.0)
    result = metrics.ood_metrics(inside, outside)
    p = torch.cat([inside, outside], dim=1).exp().numpy()
    truth = np.repeat([0, 1], [80, 60])
    mean = p.mean(axis=0)

    def area(score: np.ndarray) -> float:
        return float(sklearn.metrics.roc_auc_score(truth, score))

    information = scipy.stats.entropy(mean, axis=-1) - scipy.stats.entropy(p, axis=-1).mean(axis=0)
    ensemble = {
        "auroc_entropy": area(scipy.stats.entropy(mean, axis=-1)),
        "auroc_max_probability": area(-mean.max(axis=-1)),
        "auroc_mutual_information": area(information),
    }
    by_entropy = [area(scipy.stats.entropy(draw, axis=-1)) for draw in p]
    by_maximum = [area(-draw.max(axis=-1)) for draw in p]
    per_sample = {
        "auroc_entropy": np.mean(by_entropy),
        "auroc_max_probability": np.mean(by_maximum),
    }
    error = {
        "auroc_entropy": scipy.stats.sem(by_entropy),
        "auroc_max_probability": scipy.stats.sem(by_maximum),
    }
    assert result["ensemble"] == pytest.approx(ensemble, abs=1e-12)
    assert result["per_sample"] == pytest.approx(per_sample, abs=1e-12)
    assert result["per_sample_error"] == pytest.approx(error, abs=1e-12)
    assert ensemble["auroc_entropy"] > 0.6


def test_ood_auroc_takes_high_uncertainty_for_ood() -> None:
    low, high = torch.tensor([0.1, 0.2, 0.2]), torch.tensor([0.2, 0.9])
    assert metrics.ood_auroc(low, high).item() == pytest.approx((3 + 1 + 2 * 0.5) / 6)
    assert metrics.ood_auroc(high, low).item() == pytest.approx(1 - 5 / 6)
    columns = metrics.ood_auroc(torch.stack([low, -low], -1).T, torch.stack([high, -high], -1).T)
    assert columns.tolist() == pytest.approx([5 / 6, 1 / 6])
