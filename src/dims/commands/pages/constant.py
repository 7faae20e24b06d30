"""What always answers the same: the least that draws must beat on held-out rows."""

from __future__ import annotations

import torch
from torch import Tensor

from dims.prediction.predictive import ClassificationPredictive, Predictive, RegressionPredictive

__all__ = ["constant_answer"]


def constant_answer(like: Predictive, training: Tensor, points: int) -> tuple[str, Predictive]:
    """The mean and deviation of the training targets, or the frequencies of their classes.

    Args:
        like: A predictive of the same kind.
        training: Targets of the training rows; each class counts one row more than it has.
        points: For how many rows.

    Returns:
        Its name and the predictive.

    Raises:
        TypeError: The predictive is of another kind.
    """
    if isinstance(like, ClassificationPredictive):
        labels, count = training.long().reshape(-1).cpu(), like.mean.shape[1]
        shares = (torch.bincount(labels, minlength=count).double() + 1) / (len(labels) + count)
        log_p = shares.log().to(like.log_probabilities.device)
        return "class frequencies", ClassificationPredictive(log_p.expand(1, points, count))
    if isinstance(like, RegressionPredictive):
        targets = training.reshape(len(training), -1).double()
        mean, std = (part.expand(1, points, -1) for part in (targets.mean(0), targets.std(0)))
        return "mean of the training targets", RegressionPredictive(mean, std)
    raise TypeError("no constant answer is known for this likelihood")
