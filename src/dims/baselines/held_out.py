"""Held-out rows: which they are, and the score of a mixture of networks on them.

score = −(1/N)·Σᵢ log (1/S)·Σₛ p(yᵢ | f(xᵢ, θₛ)),   in nats a point, lower is better
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dims.model.copies import equal_rows, parts_of
from dims.model.likelihoods import Likelihood
from dims.model.shapes import RowScalars
from dims.model.training_data import TrainingData
from dims.prediction.predictive import log_density
from dims.sampling.draws.unseen import collect_unseen

__all__ = ["check_fraction", "collect_unseen", "member_nll", "mixture_nll", "split"]


def check_fraction(fraction: Any, points: int) -> int:
    """How many of the points are held out: at least one, and two are left."""
    if isinstance(fraction, bool) or not 0 < fraction < 1:
        raise ValueError(
            f"validation: a fraction must lie in (0, 1), got {fraction!r}; give rows (x, y) or "
            '"none" otherwise'
        )
    count = max(1, round(fraction * points))
    if points - count < 2:
        raise ValueError(
            f"validation: of {points} rows {count} would be held out, which leaves too few to "
            'train on; give validation="none"'
        )
    return count


def split(data: TrainingData, count: int, seed: int) -> tuple[TrainingData, TrainingData]:
    """The rows to train on, and `count` rows by chance that are held out, copies with them."""
    order = torch.randperm(len(data.targets), generator=torch.Generator().manual_seed(seed))
    held, kept = parts_of(order, [count], equal_rows(*data))
    chosen = (part.sort().values.to(data.targets.device) for part in (kept, held))
    known, unseen = (data.part(part) for part in chosen)
    return known, unseen


def member_nll(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> Tensor:
    """−log p(y|θₛ) of each row and point, (S, N), in float64."""
    distribution = likelihood.distribution(outputs.double())
    wide = targets.double() if targets.is_floating_point() else targets
    return -log_density(distribution, wide, outputs.ndim)


def mixture_nll(nll: Tensor) -> RowScalars:
    """−log of the mean density of S rows at each point, (N,)."""
    return math.log(len(nll)) - (-nll).logsumexp(dim=0)
