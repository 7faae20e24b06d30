"""Counts, and several labels that may all be true at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, distributions, nn
from torch.nn import functional

from dims.model.likelihoods.base import Likelihood

__all__ = ["MultiLabelBernoulli", "Poisson"]


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts y ~ Poisson(eᶠ): −log p = eᶠ − y·f + log y!, the last of which is left out.

    Example:
        >>> posterior = dims.fit(model, (x, counts), dims.Poisson())
    """

    name = "poisson"

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.exp() - targets * outputs).sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.Poisson:
        return distributions.Poisson(outputs.exp())

    def output_hessian(self, outputs: Tensor) -> Tensor:
        return torch.diag_embed(outputs.exp())

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        counts = super().check_targets(outputs, targets)
        if (counts < 0).any() or not torch.equal(counts, counts.round()):
            raise ValueError("targets: counts must be whole numbers 0, 1, 2, …; found others")
        return counts


@dataclass(frozen=True)
class MultiLabelBernoulli(Likelihood):
    """C logits, C labels, each 0 or 1: −log p = −Σ_c y_c log σ(f_c) + (1 − y_c) log σ(−f_c).

    Example:
        >>> posterior = dims.fit(model, (x, labels), dims.MultiLabelBernoulli())   # labels (N, C)
    """

    name = "multi_label_bernoulli"

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (functional.softplus(outputs) - targets * outputs).sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.Bernoulli:
        return distributions.Bernoulli(logits=outputs)

    def output_hessian(self, outputs: Tensor) -> Tensor:
        probability = torch.sigmoid(outputs)
        return torch.diag_embed(probability * (1 - probability))

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if targets.ndim == 1 and outputs.shape[-1] > 1:
            raise ValueError(
                f"targets: MultiLabelBernoulli takes a label for each of {outputs.shape[-1]} "
                f"outputs, got shape {tuple(targets.shape)}; for class numbers use Categorical"
            )
        labels = super().check_targets(outputs, targets)
        if not ((labels == 0) | (labels == 1)).all():
            raise ValueError("targets: labels must be 0 or 1, one for each output; found others")
        return labels

    def torch_loss(self) -> tuple[nn.Module, float]:
        return nn.BCEWithLogitsLoss(reduction="sum"), 1.0
