"""Random predictives that the tests of the metrics share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dims import metrics

LABELLED: list[Callable[[Tensor, Tensor], Tensor]] = [
    metrics.accuracy,
    metrics.negative_log_likelihood,
    metrics.brier_sum,
    metrics.brier_mean,
    metrics.expected_calibration_error,
    metrics.maximum_calibration_error,
    metrics.auroc,
]
GAUSSIAN: list[Callable[[Tensor, Tensor, Any], Tensor]] = [
    metrics.gaussian_nll,
    metrics.coverage,
    metrics.gaussian_crps,
]
MIXTURE: list[Callable[[Tensor, Tensor, Any], Tensor]] = [
    metrics.mixture_nll,
    metrics.mixture_coverage,
    metrics.mixture_crps,
]


def random_classification(
    *shape: int, seed: int = 0, scale: float = 2.0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of that shape and labels that follow them loosely; every class occurs."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(shape[-1], shape[-2:-1], generator=generator)
    labels[: shape[-1]] = torch.arange(shape[-1])
    logits = scale * torch.randn(shape, generator=generator, dtype=dtype)
    logits = logits + scale * torch.nn.functional.one_hot(labels, shape[-1])
    return logits.log_softmax(dim=-1), labels


def random_regression(*shape: int, axes: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(shape, generator=generator, dtype=torch.float64)
    return means, 1.5 * torch.randn(shape[-axes:], generator=generator, dtype=torch.float64)


def counted_auroc(low: np.ndarray, high: np.ndarray) -> float:
    difference = high[:, None] - low[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())
