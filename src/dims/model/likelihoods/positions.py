"""A class for every token of a sequence or every pixel of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributions

from dims.model.likelihoods.base import Likelihood
from dims.model.shapes import check_integer
from dims.prediction.positions import PositionPredictive, labelled_log
from dims.prediction.targets import position_labels

__all__ = ["PositionCategorical"]


@dataclass(frozen=True)
class PositionCategorical(Likelihood):
    """Labels at P positions: −log p = −Σ log softmax(f_p)[y_p] over positions that have one.

    The network gives (N, ..., C), as models of tokens do, or (N, C, ...), as models of pixels and
    `torch.nn.CrossEntropyLoss` do; `class_axis` says which. A point is a whole sequence or image.
    Positions with the label `ignore_index`, such as padding, count neither in the loss nor in the
    curvature nor in metrics.

    Args:
        classes: C, at least 2.
        class_axis: −1 for outputs (N, ..., C), 1 for (N, C, ...).
        ignore_index: The label of positions that do not count.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> tagger = dims.PositionCategorical(classes=5)                      # outputs (N, T, 5)
        >>> posterior = dims.fit(model, (tokens, tags), tagger, curvature="low_rank")
    """

    classes: int
    class_axis: int = -1
    ignore_index: int = -100
    name = "position_categorical"
    task = "classification"
    takes_positions = True

    def __post_init__(self) -> None:
        check_integer("classes", self.classes, lowest=2)
        if self.class_axis not in (-1, 1):
            raise ValueError(f"class_axis: must be −1 or 1, got {self.class_axis}")
        if 0 <= self.ignore_index < self.classes:
            raise ValueError(f"ignore_index: {self.ignore_index} is a class; give another number")

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        log_p = torch.log_softmax(self._by_position(outputs), -1)
        return -labelled_log(log_p, targets, self.ignore_index).sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.Distribution:
        return _Positions(self._by_position(outputs), self.ignore_index)

    def output_hessian(self, outputs: Tensor) -> Tensor:
        return self._hessian(outputs, None)

    def curvature_weights(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._hessian(outputs, targets)

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        points, width = outputs.shape
        positions = width // self.classes
        if width % self.classes:
            raise ValueError(
                f"likelihood: the model gives {width} outputs for a point, which are not "
                f"classes={self.classes} at a whole number of positions"
            )
        return position_labels(targets, points, positions, self.classes, self.ignore_index)

    def predictive(self, outputs: Tensor) -> PositionPredictive:
        log_p = torch.log_softmax(self._by_position(outputs), -1)
        return PositionPredictive(log_p, self.ignore_index)

    def _by_position(self, outputs: Tensor) -> Tensor:
        """(..., N, P·C) in the layout of the network as (..., N, P, C)."""
        if self.class_axis == 1:
            return outputs.unflatten(-1, (self.classes, -1)).transpose(-1, -2)
        return outputs.unflatten(-1, (-1, self.classes))

    def _hessian(self, outputs: Tensor, targets: Tensor | None) -> Tensor:
        """diag(p) − p·pᵀ at each position, zero between positions, in the layout of outputs."""
        p = torch.softmax(self._by_position(outputs), -1)
        blocks = torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)  # (N, P, C, C)
        if targets is not None:
            blocks = blocks * (targets != self.ignore_index)[..., None, None]
        whole = torch.diag_embed(blocks.movedim(1, -1))  # (N, C, C, P, P)
        order = (0, 1, 3, 2, 4) if self.class_axis == 1 else (0, 3, 1, 4, 2)
        return whole.permute(order).reshape(*outputs.shape, outputs.shape[-1])


class _Positions(distributions.Categorical):
    """A label at each position, of batch shape (..., N, P); ignored ones have probability 1."""

    def __init__(self, logits: Tensor, ignore_index: int) -> None:
        super().__init__(logits=logits)
        self.ignore_index = ignore_index

    def log_prob(self, value: Any) -> Tensor:
        return labelled_log(self.logits, value, self.ignore_index)
