"""`DimsClassifier` and `DimsRegressor`: a small network and its draws, as scikit-learn knows them.

The network is a multilayer perceptron that standardises its own inputs, so `posterior_` and
`draws_` take features as they are. For regression they speak of standardised targets; `predict`
answers in the units of y.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from dims.model.likelihoods import Likelihood, resolve_likelihood
from dims.prediction.predictive import ClassificationPredictive, Predictive
from dims.sampling.draws import Draws
from dims.sampling.fit import fit
from dims.sampling.posterior import Posterior

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "DimsClassifier and DimsRegressor need scikit-learn; install it with "
        "pip install 'dims[sklearn]'"
    ) from error

__all__ = ["DimsClassifier", "DimsRegressor"]

ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}


class _DimsEstimator(BaseEstimator):
    """Train a perceptron with Adam, fit its posterior at a minimum, and sample it.

    Parameters
    ----------
    hidden : widths of the hidden layers; () is a linear model.
    activation : "tanh", "silu" or "gelu"; smooth, as trajectories follow the loss.
    epochs, learning_rate, weight_decay : of Adam on the mean loss of all points at once.
    curvature, curvature_kind, prior_precision, refine : as in `dims.fit`; a prior precision of
        None is tuned by the evidence, and so is the noise of a regressor, always.
    n_draws, method, friction, gravity, max_time, tolerance, settle, certify : as in
        `Posterior.sample`; what is left alone takes the method's default.
    random_state : an int, a RandomState or None; sets the first weights and the draws.

    Attributes
    ----------
    posterior_, draws_ : what `dims.fit` and `Posterior.sample` returned, in float64.
    n_features_in_, feature_names_in_ : of the features seen in `fit`.
    """

    posterior_: Posterior
    draws_: Draws
    n_features_in_: int

    def __init__(
        self,
        hidden: Sequence[int] = (16,),
        activation: str = "tanh",
        *,
        epochs: int = 300,
        learning_rate: float = 0.02,
        weight_decay: float = 1e-3,
        curvature: str = "full",
        curvature_kind: str = "ggn",
        prior_precision: float | None = None,
        refine: bool = True,
        n_draws: int = 20,
        method: str = "dims",
        friction: float | None = None,
        gravity: float | None = None,
        max_time: float | None = None,
        tolerance: float | None = None,
        settle: Literal["stiff", "full", "default"] | None = "default",
        certify: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.curvature = curvature
        self.curvature_kind = curvature_kind
        self.prior_precision = prior_precision
        self.refine = refine
        self.n_draws = n_draws
        self.method = method
        self.friction = friction
        self.gravity = gravity
        self.max_time = max_time
        self.tolerance = tolerance
        self.settle = settle
        self.certify = certify
        self.random_state = random_state

    def _fit(self, features: np.ndarray, targets: np.ndarray, outputs: int, task: str) -> None:
        """From checked arrays to `posterior_` and `draws_`."""
        _check_whole("epochs", self.epochs, 0)
        _check_whole("n_draws", self.n_draws, 1)
        _check_real("learning_rate", self.learning_rate, zero_allowed=False)
        _check_real("weight_decay", self.weight_decay, zero_allowed=True)
        random = check_random_state(self.random_state)
        first_seed, draw_seed = (int(seed) for seed in random.randint(2**31 - 1, size=2))
        generator = torch.Generator().manual_seed(first_seed)
        inputs, answers = torch.tensor(features), torch.tensor(targets)
        scaler = StandardScaler().fit(features)
        network = nn.Sequential(
            _Standardise(scaler.mean_, scaler.scale_),
            *_perceptron(features.shape[1], self.hidden, outputs, self.activation, generator),
        )
        self._train(network, inputs, answers, resolve_likelihood(task, outputs))
        self.posterior_ = fit(
            network,
            (inputs, answers),
            task,
            curvature=self.curvature,
            curvature_kind=self.curvature_kind,
            prior_precision=self.prior_precision,
            refine=self.refine,
        )
        self.draws_ = self.posterior_.sample(
            int(self.n_draws),
            self.method,
            friction=self.friction,
            gravity=self.gravity,
            max_time=self.max_time,
            tolerance=self.tolerance,
            settle=self.settle,
            certify=self.certify,
            seed=draw_seed,
            progress=False,
        )
        unfinished = sum(status is not None and not status.ok for status in self.draws_.status)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {len(self.draws_)} draws ended early; draws_.summary() says why "
                "and what to do",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _train(
        self, network: nn.Module, inputs: Tensor, targets: Tensor, likelihood: Likelihood
    ) -> None:
        optimiser = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        targets = likelihood.check_targets(network(inputs), targets)
        with torch.enable_grad():
            for _ in range(self.epochs):
                optimiser.zero_grad()
                loss = likelihood.negative_log(network(inputs), targets).mean()
                loss.backward()
                optimiser.step()
        if not all(parameter.isfinite().all() for parameter in network.parameters()):
            raise ValueError(
                f"learning_rate: training diverged at {self.learning_rate}; choose a smaller one"
            )

    def _predictive(self, X: Any) -> Predictive:
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float64)
        return self.draws_.predict(torch.tensor(features))


class DimsClassifier(ClassifierMixin, _DimsEstimator):
    """Classify by the mean probabilities of draws; two classes or more, labels of any kind."""

    __doc__ += f"\n\n    {_DimsEstimator.__doc__}"

    classes_: np.ndarray

    def fit(self, X: Any, y: Any) -> DimsClassifier:
        """Train on features (N, D) and labels (N,), and draw."""
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
        """The mean probabilities of the draws, (N, classes), in the order of `classes_`."""
        predictive = self._predictive(X)
        assert isinstance(predictive, ClassificationPredictive)
        return predictive.probabilities.numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each point, (N,)."""
        columns = self.predict_proba(X).argmax(axis=1)
        return self.classes_[columns]


class DimsRegressor(RegressorMixin, _DimsEstimator):
    """Predict by the mean of draws, with an uncertainty; one output or several.

    Outputs are standardised one by one and share the noise of the standardised targets.
    """

    def fit(self, X: Any, y: Any) -> DimsRegressor:
        """Train on features (N, D) and targets (N,) or (N, outputs), and draw."""
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
        """The mean of the draws, and the standard deviation of y: noise and disagreement."""
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


class _Standardise(nn.Module):
    """(x − mean) / scale, with constants."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: np.ndarray, scale: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs - self.mean) / self.scale


def _perceptron(
    features: int,
    hidden: Sequence[int],
    outputs: int,
    activation: str,
    generator: torch.Generator,
) -> list[nn.Module]:
    """Linear layers with the activation between them; torch's own first weights, but seeded."""
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"activation: {activation!r} is unknown; there are {', '.join(ACTIVATIONS)}"
        )
    listed = isinstance(hidden, Sequence)
    if not (listed and all(isinstance(width, Integral) and width > 0 for width in hidden)):
        raise ValueError(f"hidden: expected widths of layers such as (16, 16), got {hidden!r}")
    layers: list[nn.Module] = []
    for width, following in pairwise([features, *map(int, hidden), outputs]):
        linear = nn.utils.skip_init(nn.Linear, width, following, dtype=torch.float64)
        bound = 1 / math.sqrt(width)
        for parameter in linear.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        layers += [linear, ACTIVATIONS[activation]()]
    return layers[:-1]


def _check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}: expected a whole number, at least {least}, got {value!r}")


def _check_real(name: str, value: Any, zero_allowed: bool) -> None:
    if not isinstance(value, Real) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name}: expected a finite number, not negative, got {value!r}")
    if value == 0 and not zero_allowed:
        raise ValueError(f"{name}: must not be 0")
