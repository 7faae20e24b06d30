"""Bad input is named, and the error says what to pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from metrics_problems import (
    GAUSSIAN,
    LABELLED,
    MIXTURE,
    random_classification,
    random_regression,
)
from torch import Tensor

from dims import metrics

# The checks of the functions themselves, not those of the test suite.
pytestmark = pytest.mark.usefixtures("unchecked")

P, Y = random_classification(6, 3)
NOT_A_NUMBER = P.clone()
NOT_A_NUMBER[2, 1] = math.nan


@pytest.mark.parametrize("function", LABELLED)
@pytest.mark.parametrize(
    ("log_p", "labels", "error", "message"),
    [
        (P, Y[:5], ValueError, r"labels must have shape \(6,\).*got \(5,\)"),
        (P, Y.unsqueeze(-1), ValueError, r"labels must have shape \(6,\).*got \(6, 1\)"),
        (P, torch.eye(3)[Y], ValueError, r"one-hot; pass labels.argmax"),
        (P, torch.eye(3).long()[Y], ValueError, r"one-hot; pass labels.argmax"),
        (P, Y + 1, ValueError, r"labels must lie in 0\.\.2, got values from 1 to 3"),
        (P, Y - 1, ValueError, r"labels must lie in 0\.\.2, got values from -1 to 1"),
        (P, Y.double(), TypeError, r"labels must be integers, got torch.float64"),
        (P, Y == 1, TypeError, r"labels must be integers, got torch.bool"),
        (P, Y.tolist(), TypeError, r"labels must be a torch.Tensor, got list"),
        (P.numpy(), Y, TypeError, r"log_probabilities must be a torch.Tensor, got ndarray"),
        (P.long(), Y, TypeError, r"log_probabilities must be of floating point"),
        (P.bfloat16(), Y, TypeError, r"must be float32 or float64, got torch.bfloat16"),
        (P + 0.01, Y, ValueError, r"sum to between 1.01 and 1.01"),
        (P[:0], Y[:0], ValueError, r"log_probabilities is empty, got shape \(0, 3\)"),
        (P[:, :1], Y, ValueError, r"C ≥ 2 classes, got \(6, 1\).*logsigmoid"),
        (P[0], Y, ValueError, r"shape \(\.\.\., N, C\).*got \(3,\)"),
        (NOT_A_NUMBER, Y, ValueError, r"log_probabilities contains NaN"),
        (P + 1.0, Y, ValueError, r"must be log-probabilities.*log_softmax\(logits"),
        (P.exp(), Y, ValueError, r"must be log-probabilities.*pass probabilities.log\(\)"),
    ],
)
def test_bad_classification_input_is_named(
    function: Callable[[Any, Any], Tensor], log_p: Any, labels: Any, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        function(log_p, labels)


M, T = random_regression(4, 6)


@pytest.mark.parametrize("function", [*GAUSSIAN, *MIXTURE, metrics.regression_metrics])
@pytest.mark.parametrize(
    ("means", "targets", "noise", "error", "message"),
    [
        (M[:, :5], T, 1.0, ValueError, r"means must have shape.*got \(4, 5\) for targets \(6,\)"),
        (M, T[:0], 1.0, ValueError, r"targets is empty"),
        (M, T[0], 1.0, ValueError, r"(targets|means) must have shape"),
        (M * math.nan, T, 1.0, ValueError, r"means contains NaN or inf"),
        (M, T / 0, 1.0, ValueError, r"targets contains NaN or inf"),
        (M.numpy(), T, 1.0, TypeError, r"means must be a torch.Tensor, got ndarray"),
        (M, T.tolist(), 1.0, TypeError, r"targets must be a torch.Tensor, got list"),
        (M, T.long(), 1.0, TypeError, r"targets must be of floating point"),
        (M, T, 0.0, ValueError, r"noise_std must be positive and finite, got 0.0"),
        (M, T, math.nan, ValueError, r"noise_std must be positive and finite, got nan"),
        (M, T, "1", TypeError, r"noise_std must be a float or a tensor, got str"),
        (M, T, True, TypeError, r"noise_std must be a float or a tensor, got bool"),
        (M, T, torch.ones(4), ValueError, r"noise_std of shape \(4,\) does not broadcast"),
        (M, T, torch.ones(2, 4, 6), ValueError, r"noise_std of shape .* does not broadcast"),
    ],
)
def test_bad_regression_input_is_named(
    function: Callable[..., Any], means: Any, targets: Any, noise: Any, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        function(means, targets, noise)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: metrics.classification_metrics(P, Y), ValueError, r"\(S, N, C\).*unsqueeze"),
        (lambda: metrics.ensemble_log_probabilities(P), ValueError, r"\(S, N, C\).*unsqueeze"),
        (lambda: metrics.mutual_information(P), ValueError, r"\(S, N, C\).*unsqueeze"),
        (lambda: metrics.predictive_entropy(P + 1), ValueError, r"must be log-probabilities"),
        (lambda: metrics.ood_metrics(P[None], P), ValueError, r"log_probabilities_out must have"),
        (lambda: metrics.ood_metrics(P[None], P.repeat(2, 1, 1)), ValueError, r"same draws"),
        (lambda: metrics.ood_auroc(M, M[:2]), ValueError, r"agree in all axes but the last"),
        (lambda: metrics.ood_auroc(T, T * math.nan), ValueError, r"uncertainty_out contains NaN"),
        (lambda: metrics.ood_auroc(T[0], T), ValueError, r"uncertainty_in must have shape"),
        (lambda: metrics.ood_auroc(T[:0], T), ValueError, r"uncertainty_in is empty"),
        (lambda: metrics.expected_calibration_error(P, Y, 0), ValueError, r"bins must be at leas"),
        (lambda: metrics.classification_metrics(P[None], Y, 5.0), TypeError, r"bins must be an in"),
        (lambda: metrics.calibration_bins(T.abs() + 1, T > 0), ValueError, r"confidence must lie"),
        (lambda: metrics.calibration_bins(T * 0, T), TypeError, r"correct must be a bool tensor"),
        (lambda: metrics.calibration_bins(T * 0, M > 0), ValueError, r"must have one shape"),
        (lambda: metrics.coverage(T, T, 1.0, 1.0), ValueError, r"level must lie strictly betwee"),
        (lambda: metrics.mixture_coverage(M, T, 1.0, 95), ValueError, r"level must lie strictly"),
        (lambda: metrics.mixture_crps(T, T, 1.0), ValueError, r"draws in front, got \(6,\)"),
        (lambda: metrics.regression_metrics(M[..., None], T, 1.0), ValueError, r"squeeze\(-1\)"),
        (lambda: metrics.gaussian_nll(M[..., None], T, 1.0), ValueError, r"squeeze or unsqueeze"),
        (lambda: metrics.gaussian_nll(M, M[None], 1.0), ValueError, r"targets must have shape"),
    ],
)
def test_bad_calls_are_named(call: Callable[[], Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_inputs_stay_as_they_were() -> None:
    log_p, labels = random_classification(3, 20, 3, dtype=torch.float32)
    before = log_p.clone()
    log_p.requires_grad_()
    metrics.classification_metrics(log_p, labels.to(torch.uint8))
    metrics.ood_metrics(log_p, log_p.transpose(0, 1).contiguous().transpose(0, 1))
    assert torch.equal(log_p.detach(), before)
    assert log_p.grad is None
    assert not metrics.brier_sum(log_p, labels).requires_grad
