"""`DimsClassifier` and `DimsRegressor`: a small network and its draws, as scikit-learn knows them.

The network is a multilayer perceptron that standardises its own inputs, so `posterior_` and
`draws_` take features as they are. For regression they speak of standardised targets; the methods
of the estimators answer in the units of y. `tables` reads CSV files for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        check_array,
        check_consistent_length,
        check_is_fitted,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "DimsClassifier and DimsRegressor need scikit-learn; install it with "
        "pip install 'dims[sklearn]'"
    ) from error

from dims.baselines.row_scores import nll_rows
from dims.estimators.base import DimsEstimator
from dims.estimators.care import CLEAR_STRAIGHT_LINE, explains_nothing, held_out_each
from dims.estimators.given import Checked, Fitted, Trained
from dims.estimators.noise import NOISES, by_input, is_better
from dims.estimators.refused import gaps_explained, refuse_words
from dims.model.likelihoods import HeteroscedasticGaussian
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

    def _checked(self, X: Any, y: Any) -> Checked:
        with gaps_explained():
            X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                f"y: one class only ({self.classes_[0]!r}); a classifier needs two or more"
            )
        if self.noise is not None:
            raise ValueError(f"noise: classes have none, got {self.noise!r}; leave it out")
        outputs = 1 if count == 2 else count
        return Checked(X, labels, outputs, "classification", bool(self.skip))

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

    def score_samples(self, X: Any, y: Any = None) -> np.ndarray:
        """log p(y|x) of each row; without y its expectation, which is low where the answer is
        uncertain: −H = Σ_c p_c·log p_c.

        Args:
            X: Features, (N, D).
            y: Labels, (N,); a label that was not in the training rows scores −∞.

        Returns:
            Scores in nats, (N,).
        """
        predictive = self._predictive(X)
        assert isinstance(predictive, ClassificationPredictive)
        if y is None:
            return -predictive.entropy.numpy()
        labels = np.asarray(y)
        check_consistent_length(predictive.mean, labels)
        known, index = self._numbered(labels)
        return np.where(known, -nll_rows(predictive, torch.from_numpy(index)).numpy(), -np.inf)

    def _numbered(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which labels are known, and the number of each; 0 where one is not."""
        known = np.isin(labels, self.classes_)
        return known, np.searchsorted(self.classes_, np.where(known, labels, self.classes_[0]))

    def _targets_for_network(self, y: Any) -> np.ndarray:
        labels = np.asarray(y)
        known, index = self._numbered(labels)
        if not known.all():
            strange = str(labels[~known][0])
            raise ValueError(
                f"y: the label {strange!r} was not in the rows that were trained on; "
                "leave its rows out"
            )
        return index


class DimsRegressor(RegressorMixin, DimsEstimator):
    """Predict by the mean of draws, with an uncertainty; one output or several.

    Outputs are standardised one by one; each has its own noise, which may depend on the row.

    Example:
        >>> model = dims.DimsRegressor(hidden=(8,), draws=30).fit(x, y)
        >>> mean, std = model.predict(x, return_std=True)
        >>> low, high = model.interval(x, 0.95)
    """

    __doc__ += f"\n    {DimsEstimator.__doc__}"
    __doc__ += """    target_mean_: Mean of each output; `posterior_` and `draws_` see y without it.
        target_scale_: Standard deviation of each output, which they see as 1.
        noise_: Which noise was chosen, "constant" or "input".
    """

    target_mean_: np.ndarray
    target_scale_: np.ndarray

    def _checked(self, X: Any, y: Any) -> Checked:
        refuse_words(y)
        allowed = {"y_numeric": True, "multi_output": True, "ensure_min_samples": 2}
        with gaps_explained():
            X, y = validate_data(self, X, y, dtype=np.float64, **allowed)
        columns = y.reshape(len(y), -1).astype(np.float64)
        scaler = StandardScaler().fit(columns)
        self.target_mean_, self.target_scale_ = scaler.mean_, scaler.scale_
        self._target_shape = y.shape[1:]
        if self.noise is not None and self.noise not in NOISES:
            raise ValueError(
                f"noise: expected one of {', '.join(map(repr, NOISES))} or None, got {self.noise!r}"
            )
        targets = scaler.transform(columns)
        return Checked(X, targets, columns.shape[1], "regression", bool(self.skip))

    def _fitted(self, given: Checked, seeds: np.ndarray) -> Fitted:
        first = super()._fitted(given, seeds)
        if self._may_skip() and explains_nothing(first.posterior):
            straight = super()._fitted(given._replace(skip=True), seeds)
            if not explains_nothing(straight.posterior, CLEAR_STRAIGHT_LINE):
                first, given = straight, given._replace(skip=True)
        if not self._may_depend_on_rows(given):
            return first
        other = super()._fitted(by_input(given, first.posterior), seeds)
        chosen = self.noise == "input" or is_better(other.posterior, first.posterior)
        return other if chosen else first

    def _trained(self, given: Checked) -> Trained:
        open_choice = self._may_depend_on_rows(given) or self._may_skip()
        return self._chosen(given) if open_choice else super()._trained(given)

    def _may_skip(self) -> bool:
        """Whether a skip connection is tried where nothing is found; minima tell whether it is."""
        return self.skip is None and self.refine

    def _may_depend_on_rows(self, given: Checked) -> bool:
        """Whether the noise may; scores of a minimum choose it, and few rows cannot tell."""
        at_minimum = self.curvature == "full" and self.refine
        enough = held_out_each(len(given.features), self.validation_fraction) > 0
        return self.noise == "input" or (self.noise is None and at_minimum and enough)

    @property
    def noise_(self) -> str:
        """What was chosen: "constant" or "input"."""
        check_is_fitted(self)
        by_row = isinstance(self.draws_.surface.likelihood, HeteroscedasticGaussian)
        return "input" if by_row else "constant"

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
        mean = self._in_units_of_y(predictive.mean)
        if not return_std:
            return mean
        std = predictive.variance.sqrt().numpy() * self.target_scale_
        return mean, std.reshape(mean.shape)

    def quantile(self, X: Any, q: float | Sequence[float]) -> np.ndarray:
        """The value that y falls below with probability q, of the mixture of all draws.

        Args:
            X: Features, (N, D).
            q: A probability strictly between 0 and 1, or several.

        Returns:
            Quantiles in the shape of y; of several q, (..., len(q)).
        """
        predictive = self._predictive(X)
        found = [self._in_units_of_y(predictive.quantile(float(one))) for one in np.ravel(q)]
        return np.stack(found, axis=-1) if np.ndim(q) else found[0]

    def interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval that holds y with the given probability.

        Args:
            X: Features, (N, D).
            level: Probability inside, strictly between 0 and 1.

        Returns:
            Lower and upper bounds in the shape of y.
        """
        low, high = self._predictive(X).interval(level)
        return self._in_units_of_y(low), self._in_units_of_y(high)

    def score_samples(self, X: Any, y: Any = None) -> np.ndarray:
        """log p(y|x) of each row, in the units of y; without y what a normal distribution of the
        same variance expects of it, −½·log(2πe·variance), which is low where the answer is
        uncertain.

        Args:
            X: Features, (N, D).
            y: Targets, (N,) or (N, outputs).

        Returns:
            Scores in nats, (N,); those of several outputs are summed.
        """
        predictive = self._predictive(X)
        units = float(np.log(self.target_scale_).sum())
        if y is None:
            logs = 0.5 * (2 * math.pi * math.e * predictive.variance).log()
            return -logs.sum(-1).numpy() - units
        scaled = self._targets_for_network(y)
        check_consistent_length(predictive.mean, scaled)
        return -nll_rows(predictive, torch.from_numpy(scaled)).numpy() - units

    def _targets_for_network(self, y: Any) -> np.ndarray:
        targets = check_array(y, dtype=np.float64, ensure_2d=False)
        return (targets.reshape(len(targets), -1) - self.target_mean_) / self.target_scale_

    def _in_units_of_y(self, standardised: Any) -> np.ndarray:
        values = standardised.numpy() * self.target_scale_ + self.target_mean_
        return values.reshape(-1, *self._target_shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
