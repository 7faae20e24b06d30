"""Scores of a predictive on each test row, and what resampled rows say about their means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dims.prediction.metrics import calibration_bins
from dims.prediction.predictive import ClassificationPredictive, Predictive
from dims.prediction.weights import log_average

__all__ = ["Interval", "Reliability", "error_rows", "nll_rows", "reliability", "resampled"]

RESAMPLES = 1000
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
BINS = 10
AT_ONCE = 2**22  # numbers of resampled rows that are alive together


class Interval(NamedTuple):
    """A mean over rows, and the central 95 % of it when the rows are drawn again."""

    value: float
    low: float
    high: float


class Reliability(NamedTuple):
    """What was promised and what came true: confidence and accuracy, or level and coverage."""

    promised: list[float | None]
    observed: list[float | None]
    rows: list[float]


def nll_rows(predictive: Predictive, targets: Tensor) -> Tensor:
    """−log p(y) of the mixture of all draws, (N,)."""
    return -log_average(predictive.log_scores(targets), predictive.weights).cpu()


def error_rows(predictive: Predictive, targets: Tensor) -> Tensor:
    """1 for a wrong class; in regression the squared error, averaged over outputs, (N,)."""
    if isinstance(predictive, ClassificationPredictive):
        labels = targets.long().reshape(-1).to(predictive.mean.device)
        return (predictive.mean.argmax(-1) != labels).double().cpu()
    wanted = targets.reshape(predictive.mean.shape).to(predictive.mean)
    return (predictive.mean - wanted).double().square().mean(-1).cpu()


def reliability(predictive: Predictive, targets: Tensor) -> Reliability:
    """Ten bins of confidence; in regression the coverage of central intervals at ten levels."""
    if isinstance(predictive, ClassificationPredictive):
        top = predictive.mean.double().max(-1)
        correct = top.indices == targets.long().reshape(-1).to(top.indices.device)
        bins = calibration_bins(top.values.clamp(max=1.0), correct, BINS)
        return Reliability(_plain(bins.confidence), _plain(bins.accuracy), bins.inputs.tolist())
    observed: list[float | None] = []
    for level in LEVELS:
        low, high = predictive.interval(level)
        wanted = targets.reshape(low.shape).to(low)
        observed.append(float(((low <= wanted) & (wanted <= high)).double().mean()))
    return Reliability(list(LEVELS), observed, [float(len(targets))] * len(LEVELS))


def resampled(
    rows: Sequence[float] | Tensor,
    final: Callable[[Tensor], Tensor] = lambda means: means,
    seed: int = 0,
) -> Interval:
    """The mean of rows with a bootstrap interval; `final` turns means into what is reported.

    The same seed draws the same rows, so that differences of methods are paired.
    """
    values = torch.as_tensor(rows).double()
    generator = torch.Generator().manual_seed(seed)
    means = []
    step = max(1, AT_ONCE // len(values))
    for start in range(0, RESAMPLES, step):
        shape = (min(step, RESAMPLES - start), len(values))
        drawn = torch.randint(len(values), shape, generator=generator)
        means.append(values[drawn].mean(1))
    found = final(torch.cat(means))
    low, high = found.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(float(final(values.mean())), low, high)


def _plain(values: Tensor) -> list[Any]:
    return [None if math.isnan(value) else value for value in values.tolist()]
