"""`DimsClassifier` and `DimsRegressor`: a small network and its draws, as scikit-learn knows them.

The network is a multilayer perceptron that standardises its own inputs, so `posterior_` and
`draws_` take features as they are. For regression they speak of standardised targets; `predict`
answers in the units of y.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import validate_data
except ImportError as error:
    raise ImportError(
        "DimsClassifier and DimsRegressor need scikit-learn; install it with "
        "pip install 'dims[sklearn]'"
    ) from error

from dims.estimators.base import DimsEstimator
from dims.prediction.predictive import ClassificationPredictive

__all__ = ["DimsClassifier", "DimsRegressor"]


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


class DimsRegressor(RegressorMixin, DimsEstimator):
    """Predict by the mean of draws, with an uncertainty; one output or several.

    Outputs are standardised one by one and share the noise of the standardised targets.

    Example:
        >>> model = dims.DimsRegressor(hidden=(8,), draws=30).fit(x, y)
        >>> mean, std = model.predict(x, return_std=True)
    """

    __doc__ += f"\n    {DimsEstimator.__doc__}"

    def fit(self, X: Any, y: Any) -> DimsRegressor:
        """Train and draw.

        Args:
            X: Features, (N, D).
            y: Targets, (N,) or (N, outputs).

        Returns:
            The estimator itself.

        Raises:
            ValueError: A parameter is out of its range.
        """
        X, y = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, multi_output=True, ensure_min_samples=2
        )
        columns = y.reshape(len(y), -1).astype(np.float64)
        scaler = StandardScaler().fit(columns)
        self._target_mean, self._target_scale = scaler.mean_, scaler.scale_
        self._target_shape = y.shape[1:]
        self._fit(X, scaler.transform(columns), columns.shape[1], "regression")
        return self

    def predict(
        self, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of the draws.

        Args:
            X: Features, (N, D).
            return_std: Return the standard deviation of y too: noise and disagreement of draws.

        Returns:
            The mean in the shape of y, or the mean and the standard deviation.
        """
        predictive = self._predictive(X)
        mean = predictive.mean.numpy() * self._target_scale + self._target_mean
        mean = mean.reshape(-1, *self._target_shape)
        if not return_std:
            return mean
        std = predictive.variance.sqrt().numpy() * self._target_scale
        return mean, std.reshape(mean.shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
