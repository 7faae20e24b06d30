"""The predictives of regression with Gaussian noise and of classification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dims.prediction.base import Predictive, as_targets
from dims.prediction.distribution import DistributionPredictive, log_density
from dims.prediction.metrics import (
    Metrics,
    classification_metrics,
    ensemble_log_probabilities,
    mutual_information,
    ood_metrics,
    predictive_entropy,
    regression_metrics,
)
from dims.prediction.metrics.regression import gaussian_log_density
from dims.prediction.quantiles import check_levels, normal_mixture_quantile
from dims.prediction.targets import class_labels, matching_targets
from dims.prediction.weights import average, spread

__all__ = ["ClassificationPredictive", "DistributionPredictive", "RegressionPredictive"]
__all__ += ["Predictive", "log_density"]

# Numbers of the draws that are in work at once; the metrics copy them to float64 a few times.
NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False, repr=False)
class RegressionPredictive(Predictive):
    """Gaussian predictives, N(μ_θ(x), σ²) for each draw, with one σ or with one for each point.

    Attributes:
        outputs: The mean of each draw, (S, N, C).
        noise_std: σ of the observation noise, a number or a tensor (S, N, C).
        weights: Weights of the draws, (S,); None: all draws count alike.
    """

    outputs: Tensor
    noise_std: float | Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        self._set_weights(self.outputs)

    @property
    def samples(self) -> Tensor:
        """The mean of each draw, (S, N, C)."""
        return self.outputs

    @property
    def aleatoric(self) -> Tensor:
        if not isinstance(self.noise_std, Tensor):
            return torch.full_like(self.mean, self.noise_std**2)
        return average(self._stds.square(), self.weights)

    def quantile(self, q: float | Any) -> Tensor:
        levels = check_levels(q)
        draws, points, outputs = self.outputs.shape
        step = max(1, NUMBERS_AT_ONCE // (draws * outputs))
        found = self.outputs.new_empty(levels.numel(), points, outputs)
        for start in range(0, points, step):
            part = slice(start, start + step)
            means, stds = self.outputs[:, part], self._stds[:, part]
            for row, level in enumerate(levels.reshape(-1).tolist()):
                found[row, part] = normal_mixture_quantile(level, means, stds, self.weights)
        return found if levels.ndim else found[0]

    def log_scores(self, targets: Any) -> Tensor:
        return gaussian_log_density(self.outputs, self._checked(targets), self.noise_std)

    def metrics(self, targets: Any, level: float = 0.95) -> Metrics:
        """NLL, RMSE, coverage of the central intervals, CRPS, and what is registered.

        Args:
            targets: (N, C), or (N,) for one output; a tensor, an array or a list.
            level: Probability of the central intervals.

        Returns:
            Per-draw metrics and ensemble metrics, as `Predictive.metrics` says.
        """
        checked = self._checked(targets)
        return regression_metrics(self.outputs, checked, self.noise_std, level, self.weights)

    @property
    def _stds(self) -> Tensor:
        """σ of each draw, point and output."""
        return torch.as_tensor(self.noise_std).to(self.outputs).expand(self.outputs.shape)

    def _checked(self, targets: Any) -> Tensor:
        return matching_targets(self.mean, as_targets(targets, self.outputs))


@dataclass(frozen=True, eq=False, repr=False)
class ClassificationPredictive(Predictive):
    """Probabilities of C ≥ 2 classes for each draw; one logit counts as two classes.

    Attributes:
        log_probabilities: log p(class|x, θₛ) of each draw, (S, N, C). They keep the likelihood of
            classes whose probability rounds to 0.
        weights: Weights of the draws, (S,); None: all draws count alike.
    """

    log_probabilities: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        self._set_weights(self.log_probabilities)

    @property
    def samples(self) -> Tensor:
        """The probabilities of each draw, (S, N, C)."""
        return self.log_probabilities.exp()

    @cached_property
    def mean(self) -> Tensor:
        return self._by_points(lambda log_p: ensemble_log_probabilities(log_p, self.weights).exp())

    @property
    def probabilities(self) -> Tensor:
        """(N, C): p̄ = (1/S) Σₛ pₛ."""
        return self.mean

    @property
    def aleatoric(self) -> Tensor:
        return self._by_points(lambda log_p: average(log_p.exp() * -log_p.expm1(), self.weights))

    @cached_property
    def epistemic(self) -> Tensor:
        return self._by_points(lambda log_p: spread(log_p.exp(), self.weights))

    @cached_property
    def entropy(self) -> Tensor:
        """Total uncertainty in nats, (N,): H[p̄] = −Σ_c p̄_c log p̄_c."""
        return self._by_points(
            lambda log_p: predictive_entropy(ensemble_log_probabilities(log_p, self.weights))
        )

    @cached_property
    def mutual_information(self) -> Tensor:
        """Disagreement of the draws in nats, (N,): H[p̄] − (1/S) Σₛ H[pₛ]."""
        return self._by_points(lambda log_p: mutual_information(log_p, self.weights))

    def quantile(self, q: float | Any) -> Tensor:
        raise TypeError("quantile: classes have no order; read the probabilities instead")

    def log_scores(self, targets: Any) -> Tensor:
        index = self._labels(targets).expand(self.log_probabilities.shape[:-1]).unsqueeze(-1)
        return self.log_probabilities.gather(-1, index).squeeze(-1).double()

    def metrics(self, targets: Any, bins: int = 10) -> Metrics:
        """Accuracy, NLL, Brier scores, calibration errors, AUROC, and what is registered.

        Args:
            targets: Class numbers (N,); a tensor, an array or a list.
            bins: Number of bins of the calibration errors.

        Returns:
            Per-draw metrics and ensemble metrics, as `Predictive.metrics` says.
        """
        labels = self._labels(targets)
        return classification_metrics(self.log_probabilities, labels, bins, self.weights)

    def ood_metrics(self, other: Predictive) -> Metrics:
        self._check_kind(other)
        assert isinstance(other, ClassificationPredictive)
        return ood_metrics(self.log_probabilities, other.log_probabilities, self.weights)

    def _labels(self, targets: Any) -> Tensor:
        _, points, classes = self.log_probabilities.shape
        return class_labels(as_targets(targets, self.log_probabilities), points, classes)

    def _by_points(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of float64 log-probabilities, a few points at a time, in our precision."""
        draws, points, classes = self.log_probabilities.shape
        step = max(1, NUMBERS_AT_ONCE // (draws * classes))
        parts = [
            function(self.log_probabilities[:, start : start + step].double())
            for start in range(0, points, step)
        ]
        return torch.cat(parts).to(self.log_probabilities.dtype)
