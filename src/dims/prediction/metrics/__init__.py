"""How good a predictive is: accuracy, likelihood, calibration and OOD detection.

Every metric is reported twice. Per-draw metrics are those of each of S draws: their mean over the
draws is under "per_sample", its standard error under "per_sample_error". Ensemble metrics, under
"ensemble", are those of the averaged predictive p̄ = (1/S) Σₛ pₛ. `register` adds a metric.

The functions take one predictive, (N, C) or (N,) or (N, D), or a batch with draws in front, and
return one float64 number per predictive. Classification reads log-probabilities, because a
probability that is rounded to 0 has lost its likelihood.
"""

from __future__ import annotations

from dims.prediction.metrics.assemblies import *
from dims.prediction.metrics.assemblies import __all__ as _assemblies
from dims.prediction.metrics.calibration import *
from dims.prediction.metrics.calibration import __all__ as _calibration
from dims.prediction.metrics.classification import *
from dims.prediction.metrics.classification import __all__ as _classification
from dims.prediction.metrics.detection import *
from dims.prediction.metrics.detection import __all__ as _detection
from dims.prediction.metrics.registry import *
from dims.prediction.metrics.registry import __all__ as _registry
from dims.prediction.metrics.regression import *
from dims.prediction.metrics.regression import __all__ as _regression

__all__ = [*_assemblies, *_calibration, *_classification, *_detection, *_registry, *_regression]
