"""OOD detection: an out-of-distribution input should look more uncertain than one inside."""

from __future__ import annotations

import torch
from torch import Tensor

from dims.prediction.metrics.checks import check_draws, check_log_probabilities, to_float64
from dims.prediction.metrics.classification import chance_of_exceeding, ensemble_log_probabilities
from dims.prediction.weights import average

__all__ = ["maximum_probability", "mutual_information", "ood_auroc", "predictive_entropy"]


def predictive_entropy(log_probabilities: Tensor) -> Tensor:
    """Entropy of each predictive in nats: −Σ_c p_c log p_c.

    Args:
        log_probabilities: (..., N, C).

    Returns:
        (..., N), in float64.

    Example:
        >>> dims.metrics.predictive_entropy(predictive.log_probabilities)  # (S, N)
    """
    log_p = check_log_probabilities(log_probabilities, "log_probabilities")
    # 0 · log 0 = 0: a finite stand-in for −inf makes the product 0.
    return -(log_p.exp() * log_p.clamp(min=torch.finfo(log_p.dtype).min)).sum(dim=-1)


def maximum_probability(log_probabilities: Tensor) -> Tensor:
    """Confidence of each predictive: max_c p_c.

    Args:
        log_probabilities: (..., N, C).

    Returns:
        (..., N), in float64.

    Example:
        >>> dims.metrics.maximum_probability(predictive.log_probabilities)  # (S, N)
    """
    return check_log_probabilities(log_probabilities, "log_probabilities").amax(dim=-1).exp()


def mutual_information(log_probabilities: Tensor, weights: Tensor | None = None) -> Tensor:
    """Disagreement of the draws in nats: H[p̄] − (1/S) Σₛ H[pₛ] ≥ 0.

    Args:
        log_probabilities: Of each draw, (S, N, C).
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        (N,), in float64.

    Example:
        >>> dims.metrics.mutual_information(predictive.log_probabilities)  # (N,)
    """
    log_p = check_draws(log_probabilities, "log_probabilities")
    total = predictive_entropy(ensemble_log_probabilities(log_p, weights))
    return (total - average(predictive_entropy(log_p), weights)).clamp(min=0.0)


def ood_auroc(uncertainty_in: Tensor, uncertainty_out: Tensor) -> Tensor:
    """AUROC of an uncertainty u as a detector of OOD inputs: P(u_out > u_in) + ½ P(u_out = u_in).

    1 is perfect, ½ is chance.

    Args:
        uncertainty_in: At in-distribution inputs, (..., N_in).
        uncertainty_out: At out-of-distribution inputs, (..., N_out).

    Returns:
        One float64 number per predictive, (...).

    Raises:
        ValueError: There are NaN or scalars, or the leading axes differ.

    Example:
        >>> inside, outside = draws.predict(x), draws.predict(x_other)
        >>> dims.metrics.ood_auroc(inside.entropy, outside.entropy)
    """
    inside = to_float64(uncertainty_in, "uncertainty_in")
    outside = to_float64(uncertainty_out, "uncertainty_out")
    for name, scores in (("uncertainty_in", inside), ("uncertainty_out", outside)):
        if scores.ndim == 0:
            raise ValueError(f"{name} must have shape (..., N), got a scalar; pass one per input")
        if scores.isnan().any():
            raise ValueError(f"{name} contains NaN; leave out failed draws first")
    if inside.shape[:-1] != outside.shape[:-1]:
        raise ValueError(
            f"uncertainty_in {tuple(inside.shape)} and uncertainty_out {tuple(outside.shape)} must "
            "agree in all axes but the last; use the same draws for both"
        )
    return chance_of_exceeding(inside, outside)
