"""`DimsRegressor`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data

from dims.estimators.base import DimsEstimator

__all__ = ["DimsRegressor"]


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
