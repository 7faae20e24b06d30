"""Out-of-distribution detection: a foreign input should look more uncertain than a known one."""

from __future__ import annotations

import torch
from torch import Tensor

from dims.prediction.metrics.checks import check_draws, check_log_probabilities, to_float64
from dims.prediction.metrics.classification import ensemble_log_probabilities
from dims.prediction.metrics.ranking import chance_of_exceeding

__all__ = ["maximum_probability", "mutual_information", "ood_auroc", "predictive_entropy"]


def predictive_entropy(log_probabilities: Tensor) -> Tensor:
    """Entropy of each predictive in nats, (..., N, C) → (..., N): −Σ_c p_c log p_c."""
    log_p = check_log_probabilities(log_probabilities, "log_probabilities")
    # 0 · log 0 = 0: a finite stand-in for −inf makes the product 0.
    return -(log_p.exp() * log_p.clamp(min=torch.finfo(log_p.dtype).min)).sum(dim=-1)


def maximum_probability(log_probabilities: Tensor) -> Tensor:
    """Confidence of each predictive, (..., N, C) → (..., N): max_c p_c."""
    return check_log_probabilities(log_probabilities, "log_probabilities").amax(dim=-1).exp()


def mutual_information(log_probabilities: Tensor) -> Tensor:
    """Disagreement of the draws in nats, (S, N, C) → (N,): H[p̄] − (1/S) Σₛ H[pₛ] ≥ 0."""
    log_p = check_draws(log_probabilities, "log_probabilities")
    total = predictive_entropy(ensemble_log_probabilities(log_p))
    return (total - predictive_entropy(log_p).mean(dim=0)).clamp(min=0.0)


def ood_auroc(uncertainty_in: Tensor, uncertainty_out: Tensor) -> Tensor:
    """How well an uncertainty tells foreign inputs apart: P(out > in) + ½ P(out = in).

    Shapes (..., N_in) and (..., N_out); 1 is perfect, ½ is chance.
    """
    known = to_float64(uncertainty_in, "uncertainty_in")
    foreign = to_float64(uncertainty_out, "uncertainty_out")
    for name, scores in (("uncertainty_in", known), ("uncertainty_out", foreign)):
        if scores.ndim == 0:
            raise ValueError(f"{name} must have shape (..., N), got a scalar; pass one per input")
        if scores.isnan().any():
            raise ValueError(f"{name} contains NaN; leave out failed draws first")
    if known.shape[:-1] != foreign.shape[:-1]:
        raise ValueError(
            f"uncertainty_in {tuple(known.shape)} and uncertainty_out {tuple(foreign.shape)} must "
            "agree in all axes but the last; use the same draws for both"
        )
    return chance_of_exceeding(known, foreign)
