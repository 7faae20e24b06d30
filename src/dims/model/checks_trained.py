"""Has the network learned anything? A posterior around an untrained network tells nothing.

A network that is no better on its own training rows than the mean, or than the frequencies of the
classes, is warned about; it may have been forgotten to train it.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from dims.errors import ModelWarning
from dims.model.likelihoods import Likelihood

__all__ = ["UNTRAINED", "warn_of_untrained"]

UNTRAINED = "model: it looks untrained"
MEANS = ("gaussian", "gaussian_per_output")
CLASSES = ("bernoulli", "categorical")
CLEARLY = 1e-3  # of the constant's loss: a network that has learned to answer it is no accident


def warn_of_untrained(
    likelihood: Likelihood, outputs: Tensor, targets: Tensor, stacklevel: int
) -> None:
    """Warn where the loss is not below that of a constant answer.

    Args:
        likelihood: Others than Gaussians and classes without positions are not asked.
        outputs: Of the network on its training rows, (N, C).
        targets: As `check_targets` returned them.
        stacklevel: That of the caller's caller, as in `warnings.warn`.
    """
    if likelihood.name in MEANS:
        target, own = targets.double(), (outputs - targets).double().square()
        spread = target.var(0, correction=0)
        # Outputs of different sizes count alike. One that is constant has no mean to beat.
        some = spread > 0
        loss, constant = (own.mean(0)[some] / spread[some]).sum(), some.double().sum()
        than = "the mean of the targets"
    elif likelihood.name in CLASSES:
        labels = targets.reshape(-1).long()
        shares = torch.bincount(labels).double() / len(labels)
        constant = torch.special.entr(shares).sum()
        # Without the smoothing of labels, which a loss may have and the frequencies have not.
        loss = -likelihood.distribution(outputs.double()).log_prob(targets).mean()
        than = "the frequencies of the classes"
    else:
        return
    if constant > 0 and loss > (1 + CLEARLY) * constant:
        warnings.warn(
            f"{UNTRAINED}: on its own training rows it predicts worse than {than} would (loss "
            f"{loss / constant:.3g} times as large). Train it first; if you did, check that inputs "
            "and targets are prepared as in training",
            ModelWarning,
            stacklevel=stacklevel + 1,
        )
