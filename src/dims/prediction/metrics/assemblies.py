"""All metrics of S draws at once, in both readings."""

from __future__ import annotations

import math
from typing import TypeAlias

from torch import Tensor

from dims.prediction.metrics.calibration import (
    expected_calibration_error,
    maximum_calibration_error,
)
from dims.prediction.metrics.checks import check_draw_axis, check_draws
from dims.prediction.metrics.classification import (
    accuracy,
    auroc,
    brier_mean,
    brier_sum,
    ensemble_log_probabilities,
    negative_log_likelihood,
)
from dims.prediction.metrics.detection import mutual_information, ood_auroc, predictive_entropy
from dims.prediction.metrics.regression import (
    coverage,
    gaussian_crps,
    gaussian_nll,
    mixture_coverage,
    mixture_crps,
    mixture_nll,
    root_mean_squared_error,
)

__all__ = ["Metrics", "classification_metrics", "ood_metrics", "regression_metrics"]

Metrics: TypeAlias = dict[str, dict[str, float]]
"""The readings "per_sample", "per_sample_error" and "ensemble", each from metric name to value."""


def classification_metrics(log_probabilities: Tensor, labels: Tensor, bins: int = 10) -> Metrics:
    """All classification metrics of S draws, log_probabilities (S, N, C) and labels (N,)."""
    log_p = check_draws(log_probabilities, "log_probabilities")

    def all_metrics(predictive: Tensor) -> dict[str, Tensor]:
        return {
            "accuracy": accuracy(predictive, labels),
            "nll": negative_log_likelihood(predictive, labels),
            "brier_sum": brier_sum(predictive, labels),
            "brier_mean": brier_mean(predictive, labels),
            "ece": expected_calibration_error(predictive, labels, bins),
            "mce": maximum_calibration_error(predictive, labels, bins),
            "auroc": auroc(predictive, labels),
        }

    return _readings(all_metrics(log_p), all_metrics(ensemble_log_probabilities(log_p)))


def ood_metrics(log_probabilities_in: Tensor, log_probabilities_out: Tensor) -> Metrics:
    """AUROC of telling inputs (S, N_out, C) from (S, N_in, C) by the uncertainty of S draws.

    Mutual information compares draws, so it has no per-sample reading.
    """
    known = check_draws(log_probabilities_in, "log_probabilities_in")
    foreign = check_draws(log_probabilities_out, "log_probabilities_out")
    if (known.shape[0], known.shape[2]) != (foreign.shape[0], foreign.shape[2]):
        raise ValueError(
            f"log_probabilities_in {tuple(known.shape)} and log_probabilities_out "
            f"{tuple(foreign.shape)} must have the same draws and classes; predict both with "
            "the same draws"
        )

    def both_scores(known: Tensor, foreign: Tensor) -> dict[str, Tensor]:
        return {
            "auroc_entropy": ood_auroc(predictive_entropy(known), predictive_entropy(foreign)),
            # −max log p ranks like −max p and has fewer ties near p = 1.
            "auroc_max_probability": ood_auroc(-known.amax(dim=-1), -foreign.amax(dim=-1)),
        }

    ensemble = both_scores(ensemble_log_probabilities(known), ensemble_log_probabilities(foreign))
    ensemble["auroc_mutual_information"] = ood_auroc(
        mutual_information(known), mutual_information(foreign)
    )
    return _readings(both_scores(known, foreign), ensemble)


def regression_metrics(
    means: Tensor, targets: Tensor, noise_std: float | Tensor, level: float = 0.95
) -> Metrics:
    """All regression metrics of S draws, means (S, N) or (S, N, D) and targets (N,) or (N, D)."""
    means = check_draw_axis(means, targets)
    per_draw = {
        "nll": gaussian_nll(means, targets, noise_std),
        "rmse": root_mean_squared_error(means, targets),
        "coverage": coverage(means, targets, noise_std, level),
        "crps": gaussian_crps(means, targets, noise_std),
    }
    ensemble = {
        "nll": mixture_nll(means, targets, noise_std),
        "rmse": root_mean_squared_error(means.double().mean(dim=0), targets),
        "coverage": mixture_coverage(means, targets, noise_std, level),
        "crps": mixture_crps(means, targets, noise_std),
    }
    return _readings(per_draw, ensemble)


def _readings(per_draw: dict[str, Tensor], ensemble: dict[str, Tensor]) -> Metrics:
    """Mean, standard error std/√S (nan for one draw) and ensemble value of each metric."""

    def error(values: Tensor) -> float:
        if len(values) == 1:
            return math.nan
        return (values.std() / math.sqrt(len(values))).item()

    return {
        "per_sample": {name: values.mean().item() for name, values in per_draw.items()},
        "per_sample_error": {name: error(values) for name, values in per_draw.items()},
        "ensemble": {name: value.item() for name, value in ensemble.items()},
    }
