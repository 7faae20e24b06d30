"""Classification: log_probabilities (..., N, C), labels (N,)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dims.prediction.metrics.checks import check_draws, check_labelled
from dims.prediction.weights import log_average

__all__ = ["accuracy", "auroc", "brier_mean", "brier_sum"]
__all__ += ["ensemble_log_probabilities", "negative_log_likelihood"]


def accuracy(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Share of inputs whose most probable class is the label: (1/N) Σₙ [argmax_c p_nc = yₙ].

    A tie goes to the lowest class number; draws that are certain and contradict each other tie.

    Args:
        log_probabilities: Of one predictive or of several, (..., N, C).
        labels: Class numbers, (N,).

    Returns:
        The share of each predictive, (...).

    Raises:
        ValueError: Shapes or values are not as described.

    Example:
        >>> dims.metrics.accuracy(predictive.log_probabilities, labels)      # of each draw, (S,)
    """
    log_p, labels = check_labelled(log_probabilities, labels)
    return (log_p.argmax(dim=-1) == labels).double().mean(dim=-1)


def negative_log_likelihood(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Mean surprise at the labels: −(1/N) Σₙ log p(yₙ).

    Args:
        log_probabilities: Of one predictive or of several, (..., N, C).
        labels: Class numbers, (N,).

    Returns:
        The mean surprise of each predictive in nats, (...).

    Raises:
        ValueError: Shapes or values are not as described.

    Example:
        >>> log_p = dims.metrics.ensemble_log_probabilities(predictive.log_probabilities)
        >>> dims.metrics.negative_log_likelihood(log_p, labels)              # of the ensemble
    """
    log_p, labels = check_labelled(log_probabilities, labels)
    index = labels.expand(log_p.shape[:-1]).unsqueeze(-1)
    return -log_p.gather(-1, index).squeeze(-1).mean(dim=-1)


def brier_sum(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Brier score summed over classes, from 0 to 2: (1/N) Σₙ Σ_c (p_nc − [yₙ = c])².

    Args:
        log_probabilities: Of one predictive or of several, (..., N, C).
        labels: Class numbers, (N,).

    Returns:
        The score of each predictive, from 0 to 2, (...).

    Example:
        >>> dims.metrics.brier_sum(predictive.log_probabilities, labels)
    """
    log_p, labels = check_labelled(log_probabilities, labels)
    one_hot = torch.nn.functional.one_hot(labels, log_p.shape[-1])
    return (log_p.exp() - one_hot).square().sum(dim=-1).mean(dim=-1)


def brier_mean(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Brier score averaged over C classes, from 0 to 2/C: `brier_sum` / C.

    Args:
        log_probabilities: Of one predictive or of several, (..., N, C).
        labels: Class numbers, (N,).

    Returns:
        The score of each predictive, from 0 to 2/C, (...).

    Example:
        >>> dims.metrics.brier_mean(predictive.log_probabilities, labels)
    """
    return brier_sum(log_probabilities, labels) / log_probabilities.shape[-1]


def auroc(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Area under the ROC curve, one class against the rest, averaged over the classes that occur.

    AUROC_c = P(p_c of an input of class c > p_c of another input) + ½ P(equal). Two classes give
    the ordinary AUROC; nan where no class has both positives and negatives.

    Args:
        log_probabilities: Of one predictive or of several, (..., N, C).
        labels: Class numbers, (N,).

    Returns:
        The area of each predictive; nan where it is not defined, (...).

    Example:
        >>> dims.metrics.auroc(predictive.log_probabilities, labels)  # of each draw, (S,)
    """
    log_p, labels = check_labelled(log_probabilities, labels)
    present = labels.unique().tolist()
    if len(present) == 1:
        return log_p.new_full(log_p.shape[:-2], math.nan)
    if log_p.shape[-1] == 2:
        # The log-odds rank like p but stay distinct where p is rounded to 0 or 1.
        odds = log_p[..., 1] - log_p[..., 0]
        return chance_of_exceeding(odds[..., labels == 0], odds[..., labels == 1])
    areas = [
        chance_of_exceeding(log_p[..., labels != c, c], log_p[..., labels == c, c]) for c in present
    ]
    return torch.stack(areas).mean(dim=0)


def ensemble_log_probabilities(log_probabilities: Tensor, weights: Tensor | None = None) -> Tensor:
    """Average the predictives of S draws: log p̄ = logsumexpₛ log pₛ − log S.

    Args:
        log_probabilities: Of each draw, (S, N, C).
        weights: Of the draws, (S,): log p̄ = logsumexpₛ (log wₛ + log pₛ); None weighs all alike.

    Returns:
        Log-probabilities of the ensemble, (N, C), in float64.

    Example:
        >>> dims.metrics.ensemble_log_probabilities(predictive.log_probabilities).exp()
    """
    log_p = check_draws(log_probabilities, "log_probabilities")
    return log_average(log_p, weights)


def chance_of_exceeding(low: Tensor, high: Tensor) -> Tensor:
    """P(high > low) + ½ P(high = low) over all pairs: the Mann–Whitney form of the AUROC."""
    ordered, queries = low.sort(dim=-1).values.contiguous(), high.contiguous()
    below = torch.searchsorted(ordered, queries)
    below_or_equal = torch.searchsorted(ordered, queries, right=True)
    return (below + below_or_equal).sum(dim=-1).double() / (2 * low.shape[-1] * high.shape[-1])
