"""The area under a ROC curve as a count of pairs."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["chance_of_exceeding"]


def chance_of_exceeding(low: Tensor, high: Tensor) -> Tensor:
    """P(high > low) + ½ P(high = low) over all pairs: the Mann–Whitney form of the AUROC."""
    ordered, queries = low.sort(dim=-1).values.contiguous(), high.contiguous()
    below = torch.searchsorted(ordered, queries)
    below_or_equal = torch.searchsorted(ordered, queries, right=True)
    return (below + below_or_equal).sum(dim=-1).double() / (2 * low.shape[-1] * high.shape[-1])
