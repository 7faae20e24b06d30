"""`DimsClassifier` and `DimsRegressor`: a small network and its draws, as scikit-learn knows them.

The network is a multilayer perceptron that standardises its own inputs, so `posterior_` and
`draws_` take features as they are. For regression they speak of standardised targets; `predict`
answers in the units of y.
"""

from __future__ import annotations

try:
    import sklearn
except ImportError as error:
    raise ImportError(
        "DimsClassifier and DimsRegressor need scikit-learn; install it with "
        "pip install 'dims[sklearn]'"
    ) from error

from dims.estimators.classifier import DimsClassifier
from dims.estimators.regressor import DimsRegressor

__all__ = ["DimsClassifier", "DimsRegressor"]
