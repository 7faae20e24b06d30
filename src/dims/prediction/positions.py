"""The predictive of a class at every position of a sequence or image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dims.prediction.base import Predictive, as_targets
from dims.prediction.metrics import Metrics
from dims.prediction.metrics.assemblies import nll_metrics
from dims.prediction.predictive import ClassificationPredictive
from dims.prediction.targets import position_labels
from dims.prediction.weights import average

__all__ = ["PositionPredictive", "labelled_log"]


@dataclass(frozen=True, eq=False, repr=False)
class PositionPredictive(Predictive):
    """Probabilities of C classes at P positions of each point, for each draw.

    Samples, mean and variances have the classes of all positions side by side, (S, N, P·C).

    Attributes:
        log_probabilities: log p(class|x, θₛ) at each position, (S, N, P, C).
        ignore_index: The label of positions that do not count.
        weights: Weights of the draws, (S,); None: all draws count alike.
    """

    log_probabilities: Tensor
    ignore_index: int = -100
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        self._set_weights(self.log_probabilities)

    @property
    def samples(self) -> Tensor:
        """The probabilities of each draw, (S, N, P·C)."""
        return self.log_probabilities.exp().flatten(2)

    @property
    def aleatoric(self) -> Tensor:
        log_p = self.log_probabilities
        return average((log_p.exp() * -log_p.expm1()).flatten(2), self.weights)

    @property
    def probabilities(self) -> Tensor:
        """(N, P, C): p̄ = (1/S) Σₛ pₛ."""
        return self.mean.view(self.log_probabilities.shape[1:])

    @cached_property
    def each(self) -> ClassificationPredictive:
        """Every position as a point of its own, N·P of them, ignored ones included."""
        return ClassificationPredictive(self.log_probabilities.flatten(1, 2), self.weights)

    @property
    def entropy(self) -> Tensor:
        """Total uncertainty of each position in nats, (N, P)."""
        return self.each.entropy.view(self.log_probabilities.shape[1:3])

    @property
    def mutual_information(self) -> Tensor:
        """Disagreement of the draws about each position in nats, (N, P)."""
        return self.each.mutual_information.view(self.log_probabilities.shape[1:3])

    def log_scores(self, targets: Any) -> Tensor:
        labels = self._labels(targets)
        return labelled_log(self.log_probabilities, labels, self.ignore_index).double().sum(-1)

    def metrics(self, targets: Any, bins: int = 10) -> Metrics:
        """Those of classification over all positions with a label, and the NLL of whole points.

        Args:
            targets: Labels (N, P) or in the shape of the points; a tensor, an array or a list.
            bins: Number of bins of the calibration errors.

        Returns:
            Per-draw metrics and ensemble metrics; "nll" is that of a point, all of its labels
            together, "nll_per_position" that of a position.
        """
        labels = self._labels(targets)
        known = (labels != self.ignore_index).flatten()
        log_p = self.each.log_probabilities[:, known]
        found = ClassificationPredictive(log_p, self.weights).metrics(labels.flatten()[known], bins)
        whole = nll_metrics(self.log_scores(targets), self.weights)
        return Metrics(
            {
                reading: {**values, "nll_per_position": values["nll"], "nll": whole[reading]["nll"]}
                for reading, values in found.items()
            }
        )

    def ood_metrics(self, other: Predictive) -> Metrics:
        self._check_kind(other)
        assert isinstance(other, PositionPredictive)
        return self.each.ood_metrics(other.each)

    def _labels(self, targets: Any) -> Tensor:
        _, points, positions, classes = self.log_probabilities.shape
        labels = as_targets(targets, self.log_probabilities)
        return position_labels(labels, points, positions, classes, self.ignore_index)


def labelled_log(log_p: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    """log p of the label at each position, (..., P, C) → (..., P), and 0 where it is ignored."""
    known = labels != ignore_index
    index = torch.where(known, labels, 0).expand(log_p.shape[:-1]).unsqueeze(-1)
    return torch.where(known, log_p.gather(-1, index).squeeze(-1), 0.0)
