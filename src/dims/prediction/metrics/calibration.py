"""Calibration: does a confidence of 80 % come true in 80 % of the cases?"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dims.prediction.metrics.checks import check_labelled, to_float64

__all__ = ["CalibrationBins", "calibration_bins", "confidence_histogram"]
__all__ += ["expected_calibration_error", "maximum_calibration_error"]

# exp(log p) of a p on the edge of a bin can miss it by a rounding; the slack keeps p in (lo, hi].
_EDGE_SLACK = 1e-12


class CalibrationBins(NamedTuple):
    """What a reliability diagram shows; all fields (..., bins), nan where a bin is empty.

    Attributes:
        inputs: Number of inputs in each bin.
        confidence: Their mean confidence.
        accuracy: The share of them that is classified correctly.
    """

    inputs: Tensor
    confidence: Tensor
    accuracy: Tensor


def calibration_bins(confidence: Tensor, correct: Tensor, bins: int = 10) -> CalibrationBins:
    """Inputs, mean confidence and accuracy in the bins ((b − 1)/B, b/B]; 0 belongs to the first.

    Args:
        confidence: Of the predicted class, in [0, 1], (..., N).
        correct: Whether the predicted class is the label, bool, (..., N).
        bins: Number of bins of equal width.

    Returns:
        What a reliability diagram shows.

    Raises:
        TypeError: `bins` is not an int, or `correct` not bool.
        ValueError: Shapes or values are not as described.

    Example:
        >>> confidence = dims.metrics.maximum_probability(log_p)
        >>> dims.metrics.calibration_bins(confidence, log_p.argmax(-1) == labels, bins=15)
    """
    confidence = to_float64(confidence, "confidence")
    if isinstance(bins, bool) or not isinstance(bins, int):
        raise TypeError(f"bins must be an int, got {type(bins).__name__}; 10 or 15 are usual")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}; 10 or 15 are usual")
    if not isinstance(correct, Tensor) or correct.dtype != torch.bool:
        raise TypeError("correct must be a bool tensor; pass predicted_class == labels")
    if confidence.ndim == 0 or correct.shape != confidence.shape:
        raise ValueError(
            f"confidence and correct must have one shape (..., N), got "
            f"{tuple(confidence.shape)} and {tuple(correct.shape)}; pass one of each per input"
        )
    if not ((confidence >= 0) & (confidence <= 1 + _EDGE_SLACK)).all():
        raise ValueError("confidence must lie in [0, 1] without NaN; pass probabilities, not logs")
    edges = torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins
    index = torch.bucketize(confidence.contiguous(), edges + _EDGE_SLACK)
    empty = confidence.new_zeros(*confidence.shape[:-1], bins)
    count = empty.scatter_add(-1, index, torch.ones_like(confidence))
    return CalibrationBins(
        count,
        empty.scatter_add(-1, index, confidence) / count,
        empty.scatter_add(-1, index, correct.double()) / count,
    )


def confidence_histogram(confidence: Tensor, bins: int = 20) -> Tensor:
    """Shares of inputs in the bins ((b − 1)/B, b/B]; 0 belongs to the first.

    Beside each other, those of in-distribution and of OOD inputs show what an AUROC is made of.

    Args:
        confidence: In [0, 1], (..., N).
        bins: Number of bins of equal width.

    Returns:
        Shares that sum to 1, (..., bins).

    Example:
        >>> confidence = dims.metrics.maximum_probability(predictive.log_probabilities)
        >>> dims.metrics.confidence_histogram(confidence)                    # (S, 20)
    """
    confidence = to_float64(confidence, "confidence")
    nothing = torch.zeros_like(confidence, dtype=torch.bool)
    return calibration_bins(confidence, nothing, bins).inputs / confidence.shape[-1]


def expected_calibration_error(log_probabilities: Tensor, labels: Tensor, bins: int = 10) -> Tensor:
    """Gap between accuracy and confidence, averaged over inputs: Σ_b (N_b/N) |acc_b − conf_b|.

    Args:
        log_probabilities: Of one predictive or of several, (..., N, C).
        labels: Class numbers, (N,).
        bins: Number of bins of equal width.

    Returns:
        The average gap of each predictive, (...).

    Example:
        >>> dims.metrics.expected_calibration_error(log_p, labels, bins=15)
    """
    count, gap = _calibration_gaps(log_probabilities, labels, bins)
    return (count * gap).sum(dim=-1) / count.sum(dim=-1)


def maximum_calibration_error(log_probabilities: Tensor, labels: Tensor, bins: int = 10) -> Tensor:
    """Gap between accuracy and confidence in the worst bin: max_b |acc_b − conf_b|, N_b > 0.

    Args:
        log_probabilities: Of one predictive or of several, (..., N, C).
        labels: Class numbers, (N,).
        bins: Number of bins of equal width.

    Returns:
        The largest gap of each predictive, (...).

    Example:
        >>> dims.metrics.maximum_calibration_error(log_p, labels, bins=15)
    """
    return _calibration_gaps(log_probabilities, labels, bins)[1].amax(dim=-1)


def _calibration_gaps(
    log_probabilities: Tensor, labels: Tensor, bins: int
) -> tuple[Tensor, Tensor]:
    log_p, labels = check_labelled(log_probabilities, labels)
    top = log_p.max(dim=-1)
    # A float32 log-softmax may sum to 1 + 1e-7.
    binned = calibration_bins(top.values.exp().clamp(max=1.0), top.indices == labels, bins)
    return binned.inputs, (binned.accuracy - binned.confidence).abs().nan_to_num(nan=0.0)
