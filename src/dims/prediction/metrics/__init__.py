"""How good a predictive is: accuracy, likelihood, calibration and OOD detection.

Every metric is reported twice. Per-draw metrics are those of each of S draws: their mean over the
draws is under "per_sample", its standard error under "per_sample_error". Ensemble metrics, under
"ensemble", are those of the averaged predictive p̄ = (1/S) Σₛ pₛ. `register` adds a metric.

The functions take one predictive, (N, C) or (N,) or (N, D), or a batch with draws in front, and
return one float64 number per predictive. Classification reads log-probabilities, because a
probability that is rounded to 0 has lost its likelihood.
"""

from __future__ import annotations

from dims.prediction.metrics.assemblies import (
    Metrics,
    classification_metrics,
    ood_metrics,
    regression_metrics,
)
from dims.prediction.metrics.calibration import (
    CalibrationBins,
    calibration_bins,
    confidence_histogram,
    expected_calibration_error,
    maximum_calibration_error,
)
from dims.prediction.metrics.classification import (
    accuracy,
    auroc,
    brier_mean,
    brier_sum,
    ensemble_log_probabilities,
    negative_log_likelihood,
)
from dims.prediction.metrics.detection import (
    maximum_probability,
    mutual_information,
    ood_auroc,
    predictive_entropy,
)
from dims.prediction.metrics.registry import Metric, directions, labels, register
from dims.prediction.metrics.regression import (
    coverage,
    gaussian_crps,
    gaussian_nll,
    mixture_coverage,
    mixture_crps,
    mixture_nll,
    root_mean_squared_error,
)

__all__ = [
    "CalibrationBins",
    "Metric",
    "Metrics",
    "accuracy",
    "auroc",
    "brier_mean",
    "brier_sum",
    "calibration_bins",
    "classification_metrics",
    "confidence_histogram",
    "coverage",
    "directions",
    "ensemble_log_probabilities",
    "expected_calibration_error",
    "gaussian_crps",
    "gaussian_nll",
    "labels",
    "maximum_calibration_error",
    "maximum_probability",
    "mixture_coverage",
    "mixture_crps",
    "mixture_nll",
    "mutual_information",
    "negative_log_likelihood",
    "ood_auroc",
    "ood_metrics",
    "predictive_entropy",
    "register",
    "regression_metrics",
    "root_mean_squared_error",
]
