"""Differences between two methods on the same images, with 95 % intervals.

    accuracy, NLL:  the mean of the images' differences, ± 1.96 standard errors
    AUROC:          DeLong's covariance of two curves on the same images
    ECE:            the images drawn again, 300 times

Reference: E. DeLong, D. DeLong and D. Clarke-Pearson, "Comparing the areas under two or more
correlated receiver operating characteristic curves", Biometrics 44 (1988).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dims.prediction.metrics.calibration import expected_calibration_error

RESAMPLES = 300
BINS = 15
NORMAL = 1.959964


class Difference(NamedTuple):
    """Ours less theirs, and where it lies with 95 %."""

    value: float
    low: float
    high: float


def by_image(ours: Tensor, theirs: Tensor) -> Difference:
    """Of the means of two numbers (N,) for the same images."""
    gaps = (ours - theirs).double()
    mean = float(gaps.mean())
    half = NORMAL * float(gaps.std()) / len(gaps) ** 0.5
    return Difference(mean, mean - half, mean + half)


def right_nll(logs: Tensor, labels: Tensor) -> Tensor:
    return -logs.gather(1, labels.unsqueeze(1)).squeeze(1)


def hits(logs: Tensor, labels: Tensor) -> Tensor:
    return (logs.argmax(-1) == labels).double()


def calibration_error(logs: Tensor, labels: Tensor) -> float:
    return float(expected_calibration_error(logs, labels, bins=BINS))


def calibration_difference(ours: Tensor, theirs: Tensor, labels: Tensor) -> Difference:
    generator = torch.Generator().manual_seed(0)
    gaps = []
    for _ in range(RESAMPLES):
        rows = torch.randint(len(labels), (len(labels),), generator=generator)
        pair = [calibration_error(logs[rows], labels[rows]) for logs in (ours, theirs)]
        gaps.append(pair[0] - pair[1])
    low, high = torch.tensor(gaps).double().quantile(torch.tensor([0.025, 0.975]).double())
    value = calibration_error(ours, labels) - calibration_error(theirs, labels)
    return Difference(value, float(low), float(high))


def placements(inside: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    """For each image the part of the other set that it is ordered rightly with; ties count half."""

    def below(values: Tensor, others: Tensor) -> Tensor:
        ordered = others.sort().values
        left = torch.searchsorted(ordered, values, right=False)
        right = torch.searchsorted(ordered, values, right=True)
        return 0.5 * (left + right).double() / len(others)

    return 1 - below(inside, outside), below(outside, inside)


def auroc(inside: Tensor, outside: Tensor) -> float:
    """The chance that an outside image is the more uncertain one."""
    return float(placements(inside, outside)[1].mean())


def auroc_difference(ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor]) -> Difference:
    """Of (inside, outside) uncertainties of the same images."""
    a, b = placements(*ours), placements(*theirs)
    value = float(a[1].mean() - b[1].mean())
    variance = sum(float((x - y).var()) / len(x) for x, y in zip(a, b, strict=True))
    half = NORMAL * variance**0.5
    return Difference(value, value - half, value + half)


def entropy(logs: Tensor) -> Tensor:
    return -(logs.exp() * logs).sum(-1)
