"""What draws say about new inputs: the equal-weight mixture of their predictive distributions.

Uncertainty splits by the law of total variance: `aleatoric` is the noise that each draw expects,
averaged over the draws, and `epistemic` is the disagreement of the draws about the mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dims.model.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from dims.prediction.metrics import (
    Metrics,
    classification_metrics,
    ensemble_log_probabilities,
    mutual_information,
    predictive_entropy,
    regression_metrics,
)

__all__ = [
    "ClassificationPredictive",
    "Predictive",
    "RegressionPredictive",
    "predictive_of",
]

# Numbers of the draws that are in work at once; the metrics copy them to float64 a few times.
NUMBERS_AT_ONCE = 2**22


class Predictive(ABC):
    """S predictive distributions of N points with C outputs or classes.

    The target is y itself in regression and its one-hot vector in classification.
    """

    @property
    @abstractmethod
    def samples(self) -> Tensor:
        """The expected target of each draw, (S, N, C)."""

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """The expected target, (N, C): (1/S) Σₛ E[y|θₛ]."""

    @property
    @abstractmethod
    def aleatoric(self) -> Tensor:
        """Noise variance, (N, C): (1/S) Σₛ Var[y|θₛ]."""

    @property
    @abstractmethod
    def epistemic(self) -> Tensor:
        """Variance of the draws' means, (N, C): (1/S) Σₛ (E[y|θₛ] − mean)²."""

    @property
    def variance(self) -> Tensor:
        """Variance of the target, (N, C): aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @abstractmethod
    def metrics(self, targets: Any) -> Metrics:
        """All metrics against the true targets, per sample and of the ensemble."""


@dataclass(frozen=True, eq=False)
class RegressionPredictive(Predictive):
    """Network outputs (S, N, C) with Gaussian noise of the same σ everywhere."""

    outputs: Tensor
    noise_std: float

    @property
    def samples(self) -> Tensor:
        return self.outputs

    @cached_property
    def mean(self) -> Tensor:
        return self.outputs.mean(dim=0)

    @property
    def aleatoric(self) -> Tensor:
        return torch.full_like(self.mean, self.noise_std**2)

    @cached_property
    def epistemic(self) -> Tensor:
        return self.outputs.var(dim=0, correction=0)

    def metrics(self, targets: Any, level: float = 0.95) -> Metrics:
        """NLL, RMSE, coverage of the central intervals of that level, and CRPS."""
        checked = Gaussian().check_targets(self.mean, _as_targets(targets, self.outputs))
        return regression_metrics(self.outputs, checked, self.noise_std, level)


@dataclass(frozen=True, eq=False)
class ClassificationPredictive(Predictive):
    """Log-probabilities (S, N, C) of C ≥ 2 classes; one logit counts as two classes."""

    log_probabilities: Tensor

    @property
    def samples(self) -> Tensor:
        """The probabilities of each draw, (S, N, C)."""
        return self.log_probabilities.exp()

    @cached_property
    def probabilities(self) -> Tensor:
        """(N, C): p̄ = (1/S) Σₛ pₛ."""
        return self._by_points(lambda log_p: ensemble_log_probabilities(log_p).exp())

    @property
    def mean(self) -> Tensor:
        return self.probabilities

    @property
    def aleatoric(self) -> Tensor:
        return self._by_points(lambda log_p: (log_p.exp() * -log_p.expm1()).mean(dim=0))

    @property
    def epistemic(self) -> Tensor:
        return self._by_points(lambda log_p: log_p.exp().var(dim=0, correction=0))

    @cached_property
    def entropy(self) -> Tensor:
        """Total uncertainty in nats, (N,): H[p̄] = −Σ_c p̄_c log p̄_c."""
        return self._by_points(lambda log_p: predictive_entropy(ensemble_log_probabilities(log_p)))

    @cached_property
    def mutual_information(self) -> Tensor:
        """Disagreement of the draws in nats, (N,): H[p̄] − (1/S) Σₛ H[pₛ]."""
        return self._by_points(mutual_information)

    def metrics(self, targets: Any, bins: int = 10) -> Metrics:
        """Accuracy, NLL, Brier scores, calibration errors in `bins` bins, and AUROC."""
        given = _as_targets(targets, self.log_probabilities)
        labels = Categorical().check_targets(self.log_probabilities[0], given)
        return classification_metrics(self.log_probabilities, labels, bins)

    def _by_points(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of float64 log-probabilities, a few points at a time, in our precision."""
        draws, points, classes = self.log_probabilities.shape
        step = max(1, NUMBERS_AT_ONCE // (draws * classes))
        parts = [
            function(self.log_probabilities[:, start : start + step].double())
            for start in range(0, points, step)
        ]
        return torch.cat(parts).to(self.log_probabilities.dtype)


def predictive_of(outputs: Tensor, likelihood: Likelihood) -> Predictive:
    """Read network outputs (S, N, C) by the likelihood; they are overwritten to save memory."""
    if isinstance(likelihood, Gaussian):
        return RegressionPredictive(outputs, likelihood.noise_std)
    if isinstance(likelihood, Bernoulli):
        columns = torch.cat([-outputs, outputs], dim=-1)
        return ClassificationPredictive(functional.logsigmoid(columns))
    if isinstance(likelihood, Categorical):
        for draw in outputs:
            draw.copy_(torch.log_softmax(draw, dim=-1))
        return ClassificationPredictive(outputs)
    raise TypeError(
        f"likelihood: dims does not know how {type(likelihood).__name__} reads its outputs; "
        "take them from surface.predict(draws.parameters, inputs)"
    )


def _as_targets(targets: Any, like: Tensor) -> Tensor:
    return torch.as_tensor(targets).to(like.device)
