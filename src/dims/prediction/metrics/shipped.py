"""The metrics that dims registers itself, in the order of the tables."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from dims.prediction.metrics import calibration, classification, regression
from dims.prediction.metrics.detection import mutual_information, predictive_entropy
from dims.prediction.metrics.registry import register

__all__ = ["SHIPPED"]

Function = Callable[..., Tensor]


def _doubt(log_probabilities: Tensor) -> Tensor:
    """−max log p ranks like −max p and has fewer ties near p = 1."""
    return -log_probabilities.amax(dim=-1)


def _total_variance(epistemic: Tensor, aleatoric: Tensor) -> Tensor:
    return (aleatoric + epistemic).sum(dim=-1)


# Name, function of each draw, function of all draws, label, whether higher is better.
SHIPPED: dict[str, list[tuple[str, Function | None, Function | None, str, bool | None]]] = {
    "classification": [
        ("accuracy", classification.accuracy, None, "accuracy", True),
        ("nll", classification.negative_log_likelihood, None, "NLL", False),
        ("brier_sum", classification.brier_sum, None, "Brier", False),
        ("brier_mean", classification.brier_mean, None, "Brier (mean)", False),
        ("ece", calibration.expected_calibration_error, None, "ECE", False),
        ("mce", calibration.maximum_calibration_error, None, "MCE", False),
        ("auroc", classification.auroc, None, "AUROC", True),
    ],
    "regression": [
        ("nll", regression.gaussian_nll, regression.mixture_nll, "NLL", False),
        ("rmse", regression.root_mean_squared_error, None, "RMSE", False),
        ("coverage", regression.coverage, regression.mixture_coverage, "coverage", None),
        ("crps", regression.gaussian_crps, regression.mixture_crps, "CRPS", False),
    ],
    "classification_ood": [
        ("auroc_entropy", predictive_entropy, None, "AUROC (entropy)", True),
        ("auroc_max_probability", _doubt, None, "AUROC (max probability)", True),
        # Mutual information compares draws, so that it has no value for a single one.
        ("auroc_mutual_information", None, mutual_information, "AUROC (mutual information)", True),
    ],
    "regression_ood": [("auroc_variance", _total_variance, None, "AUROC (variance)", True)],
}

for _task, _rows in SHIPPED.items():
    for _name, _each, _all, _label, _higher in _rows:
        register(_name, _each, task=_task, label=_label, higher_is_better=_higher, ensemble=_all)
