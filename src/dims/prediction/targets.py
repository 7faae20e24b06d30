"""Checks of targets against outputs, shared by likelihoods and predictive distributions."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["class_labels", "matching_targets", "position_labels"]


def matching_targets(outputs: Tensor, targets: Tensor) -> Tensor:
    """Targets (N, C) in the precision of outputs (N, C); (N,) is accepted where C = 1."""
    if targets.ndim == 1 and outputs.shape[-1] == 1:
        targets = targets.unsqueeze(-1)
    if targets.shape != outputs.shape:
        raise ValueError(
            f"targets: shape {tuple(targets.shape)} does not match the model's outputs "
            f"{tuple(outputs.shape)}; give one target per point and output"
        )
    targets = targets.to(dtype=outputs.dtype)
    if not torch.isfinite(targets).all():
        raise ValueError("targets: contain NaN or infinite values; clean or drop those points")
    return targets


def class_labels(targets: Tensor, points: int, classes: int) -> Tensor:
    """Class numbers 0, …, classes − 1 as int64, (points,)."""
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets.squeeze(1)
    if targets.ndim != 1 or targets.shape[0] != points:
        raise ValueError(
            f"targets: class labels must have shape ({points},), got {tuple(targets.shape)}"
            + _advice_for_rows(targets)
        )
    labels = targets.to(torch.int64)
    if targets.is_floating_point() and not torch.equal(labels.to(targets.dtype), targets):
        raise ValueError("targets: class labels must be whole numbers; got fractions or NaN")
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0 or highest >= classes:
        raise ValueError(
            f"targets: class labels must lie in 0..{classes - 1} for this model's outputs, "
            f"found {lowest}..{highest}"
        )
    return labels


def _advice_for_rows(targets: Tensor) -> str:
    """What to do with several numbers for each point: one class, several labels, or neither."""
    if targets.ndim != 2 or not ((targets == 0) | (targets == 1)).all():
        return "; give one class number for each point"
    if (targets.sum(-1) == 1).all():
        return "; turn one-hot labels into class numbers with targets.argmax(-1)"
    return (
        "; these are several labels of each point, not one class: use a likelihood with a "
        "probability for each of them, dims.MultiLabelBernoulli()"
    )


def position_labels(
    targets: Tensor, points: int, positions: int, classes: int, ignore_index: int
) -> Tensor:
    """Class numbers of each position as int64, (points, positions); some may be ignored."""
    if targets.ndim < 2 or len(targets) != points or targets[0].numel() != positions:
        raise ValueError(
            f"targets: expected a label at each of {positions} positions of {points} points, got "
            f"shape {tuple(targets.shape)}"
        )
    labels = targets.reshape(points, positions).to(torch.int64)
    known = labels[labels != ignore_index]
    if len(known) == 0:
        raise ValueError(f"targets: every label is {ignore_index}, which is ignored")
    lowest, highest = int(known.min()), int(known.max())
    if lowest < 0 or highest >= classes:
        raise ValueError(
            f"targets: labels must lie in 0..{classes - 1} or be {ignore_index}, found "
            f"{lowest}..{highest}"
        )
    return labels
