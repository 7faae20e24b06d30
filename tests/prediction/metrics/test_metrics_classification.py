"""Classification metrics against scikit-learn, netcal or a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats
import sklearn.metrics
import torch
from metrics_problems import (
    LABELLED,
    counted_auroc,
    random_classification,
)
from netcal.metrics import ECE, MCE
from torch import Tensor

from dims import metrics


def sklearn_metrics(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    classes = list(range(p.shape[-1]))
    confidence, correct = p.max(axis=-1), (p.argmax(axis=-1) == y).astype(int)
    brier = sklearn.metrics.brier_score_loss(y, p, labels=classes, scale_by_half=False)
    score = p[:, 1] if len(classes) == 2 else p
    return {
        "accuracy": sklearn.metrics.accuracy_score(y, p.argmax(axis=-1)),
        "nll": sklearn.metrics.log_loss(y, p, labels=classes),
        "brier_sum": brier,
        "brier_mean": brier / len(classes),
        # One confidence per input, or netcal would score two classes by the positive one alone.
        "ece": ECE(10).measure(confidence, correct),
        "mce": MCE(10).measure(confidence, correct),
        "auroc": sklearn.metrics.roc_auc_score(y, score, multi_class="ovr", average="macro"),
    }


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_metrics_agree_with_sklearn_and_netcal(classes: int, dtype: torch.dtype) -> None:
    log_p, labels = random_classification(4, 300, classes, seed=classes, dtype=dtype)
    ours = metrics.classification_metrics(log_p, labels)
    probabilities = log_p.double().exp().numpy()
    # scikit-learn warns on rows that sum to 1 + 1e-7, as those of a float32 softmax do.
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    draws = [sklearn_metrics(p, labels.numpy()) for p in probabilities]
    ensemble = sklearn_metrics(probabilities.mean(axis=0), labels.numpy())
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    assert ours["ensemble"] == pytest.approx(ensemble, abs=tolerance)
    mean = {name: np.mean([d[name] for d in draws]) for name in ensemble}
    error = {name: scipy.stats.sem([d[name] for d in draws]) for name in ensemble}
    assert ours["per_sample"] == pytest.approx(mean, abs=tolerance)
    assert ours["per_sample_error"] == pytest.approx(error, abs=tolerance)
    assert min(error.values()) > 0


@pytest.mark.parametrize("function", LABELLED)
def test_draws_in_front_are_scored_one_by_one(
    function: Callable[[Tensor, Tensor], Tensor],
) -> None:
    log_p, labels = random_classification(2, 3, 50, 4, dtype=torch.float32)
    batched = function(log_p, labels)
    assert batched.shape == (2, 3)
    assert batched.dtype == torch.float64
    assert batched.unique().numel() > 1
    one_by_one = torch.stack([function(p, labels) for p in log_p.flatten(0, 1)])
    torch.testing.assert_close(batched.flatten(), one_by_one, rtol=1e-12, atol=0)


def test_saturated_likelihood_is_finite_and_a_true_zero_is_infinite() -> None:
    labels = torch.tensor([1, 0])
    logits = torch.tensor([[1000.0, -1000.0], [3.0, 3.0]])
    nll = metrics.negative_log_likelihood(logits.log_softmax(dim=-1), labels)
    assert nll.item() == pytest.approx((2000 + math.log(2)) / 2)
    certain = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]).log().repeat(2, 1, 1)
    result = metrics.classification_metrics(certain, labels)
    assert result["ensemble"]["nll"] == math.inf
    assert result["per_sample"]["nll"] == math.inf
    assert result["ensemble"]["brier_sum"] == pytest.approx((2 + 0.5) / 2)


def test_ensemble_is_averaged_in_log_space() -> None:
    log_p, _ = random_classification(5, 20, 3)
    average = np.log(log_p.exp().numpy().mean(axis=0))
    np.testing.assert_allclose(metrics.ensemble_log_probabilities(log_p), average, rtol=1e-12)
    tiny = torch.tensor([[[0.0, -1000.0]], [[0.0, -1002.0]]], dtype=torch.float64)
    expected = -1000 + math.log((1 + math.exp(-2)) / 2)
    assert metrics.ensemble_log_probabilities(tiny)[0, 1].item() == pytest.approx(expected)
    never = torch.tensor([[[0.0, -math.inf]], [[0.0, -math.inf]]])
    assert metrics.ensemble_log_probabilities(never)[0].tolist() == [0.0, -math.inf]


@pytest.mark.parametrize("classes", [2, 4])
def test_auroc_counts_ties_as_half(classes: int) -> None:
    rng = np.random.default_rng(0)
    p = rng.multinomial(6, np.full(classes, 1 / classes), size=200) / 6
    y = rng.integers(classes, size=200)
    expected = sklearn.metrics.roc_auc_score(
        y, p[:, 1] if classes == 2 else p, multi_class="ovr", average="macro"
    )
    # log 0 = −inf is a legitimate log-probability.
    ours = metrics.auroc(torch.from_numpy(p).log(), torch.from_numpy(y))
    assert ours.item() == pytest.approx(expected, abs=1e-12)


def test_auroc_leaves_absent_classes_out() -> None:
    log_p, labels = random_classification(60, 4)
    labels = labels.where(labels != 2, 0)
    p, y = log_p.exp().numpy(), labels.numpy()
    expected = [counted_auroc(p[y != c, c], p[y == c, c]) for c in (0, 1, 3)]
    assert metrics.auroc(log_p, labels).item() == pytest.approx(np.mean(expected), abs=1e-12)
    only = metrics.auroc(log_p.repeat(3, 1, 1), torch.full((60,), 3))
    assert only.shape == (3,)
    assert only.isnan().all()


def test_binary_auroc_ranks_beyond_rounded_probabilities() -> None:
    # All four probabilities of class 1 are 1.0 in floating point; the log-odds rank perfectly.
    z = torch.tensor([50.0, 60.0, 70.0, 80.0], dtype=torch.float64)
    log_p = torch.stack([-z, torch.zeros_like(z)], dim=-1).log_softmax(dim=-1)
    assert (log_p[:, 1].exp() == 1.0).all()
    assert metrics.auroc(log_p, torch.tensor([0, 0, 1, 1])).item() == 1.0


def test_one_draw_has_no_standard_error() -> None:
    log_p, labels = random_classification(1, 30, 3)
    result = metrics.classification_metrics(log_p, labels)
    assert result["per_sample"] == pytest.approx(result["ensemble"])
    assert all(math.isnan(value) for value in result["per_sample_error"].values())
