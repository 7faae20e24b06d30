"""The predictive of classes with an order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dims.prediction.predictive import ClassificationPredictive
from dims.prediction.quantiles import check_levels

__all__ = ["OrdinalPredictive"]


class OrdinalPredictive(ClassificationPredictive):
    """Probabilities of C ordered classes; quantiles are class numbers.

    Args:
        log_probabilities: log p(class|x, θₛ) of each draw, (S, N, C).
        weights: Weights of the draws, (S,); None: all draws count alike.
    """

    def quantile(self, q: float | Any) -> Tensor:
        levels = check_levels(q).to(self.mean.device)
        shares = self.probabilities.double().cumsum(-1)
        shares = shares / shares[..., -1:]
        # The first class with P(y ≤ k) ≥ q: as many as lie below it.
        found = (shares < levels.reshape(-1, 1, 1)).sum(-1, keepdim=True)
        found = found.to(torch.promote_types(self.mean.dtype, torch.float32))
        return found if levels.ndim else found[0]
