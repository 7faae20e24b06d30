"""`DimsClassifier`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dims.estimators.base import DimsEstimator
from dims.prediction.predictive import ClassificationPredictive

__all__ = ["DimsClassifier"]


class DimsClassifier(ClassifierMixin, DimsEstimator):
    """Classify by the mean probabilities of draws; two classes or more, labels of any kind.

    Example:
        >>> model = dims.DimsClassifier(hidden=(8,), draws=30).fit(x, y)
        >>> model.predict_proba(x)
    """

    __doc__ += f"\n    {DimsEstimator.__doc__}"

    classes_: np.ndarray

    def fit(self, X: Any, y: Any) -> DimsClassifier:
        """Train and draw.

        Args:
            X: Features, (N, D).
            y: Labels of any kind, (N,).

        Returns:
            The estimator itself.

        Raises:
            ValueError: A parameter is out of its range, or y has one class only.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                f"y: one class only ({self.classes_[0]!r}); a classifier needs two or more"
            )
        self._fit(X, labels, 1 if count == 2 else count, "classification")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The mean probabilities of the draws.

        Args:
            X: Features, (N, D).

        Returns:
            Probabilities, (N, classes), in the order of `classes_`.
        """
        predictive = self._predictive(X)
        assert isinstance(predictive, ClassificationPredictive)
        return predictive.probabilities.numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable labels.

        Args:
            X: Features, (N, D).

        Returns:
            Labels, (N,).
        """
        columns = self.predict_proba(X).argmax(axis=1)
        return self.classes_[columns]
