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
from torch.distributions import Distribution

from dims.prediction.metrics import (
    Metrics,
    classification_metrics,
    ensemble_log_probabilities,
    mutual_information,
    ood_metrics,
    predictive_entropy,
    regression_metrics,
)
from dims.prediction.metrics.assemblies import density_metrics, regression_ood_metrics
from dims.prediction.targets import class_labels, matching_targets

__all__ = ["ClassificationPredictive", "DistributionPredictive", "RegressionPredictive"]
__all__ += ["Predictive", "log_density"]

# Numbers of the draws that are in work at once; the metrics copy them to float64 a few times.
NUMBERS_AT_ONCE = 2**22


class Predictive(ABC):
    """S predictive distributions of N points with C outputs or classes.

    `draws.predict(x)` returns one. The target is y itself in regression and its one-hot vector
    in classification.

    Example:
        >>> predictive = draws.predict(x)
        >>> predictive.mean, predictive.variance.sqrt()
        >>> predictive.metrics(y)["ensemble"]["nll"]
        >>> predictive.ood_metrics(draws.predict(x_other))["ensemble"]
    """

    @property
    @abstractmethod
    def samples(self) -> Tensor:
        """The expected target of each draw, (S, N, C)."""

    @cached_property
    def mean(self) -> Tensor:
        """The expected target, (N, C): (1/S) Σₛ E[y|θₛ]."""
        return self.samples.mean(dim=0)

    @property
    @abstractmethod
    def aleatoric(self) -> Tensor:
        """Noise variance, (N, C): (1/S) Σₛ Var[y|θₛ]."""

    @cached_property
    def epistemic(self) -> Tensor:
        """Variance of the draws' means, (N, C): (1/S) Σₛ (E[y|θₛ] − mean)²."""
        return self.samples.var(dim=0, correction=0)

    @property
    def variance(self) -> Tensor:
        """Variance of the target, (N, C): aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @abstractmethod
    def metrics(self, targets: Any) -> Metrics:
        """All metrics against the true targets, per draw and of the ensemble.

        Args:
            targets: The true targets of the N points, as in training.

        Returns:
            Three dicts from metric name to value: "per_sample" (the mean over the draws of the
            per-draw metrics), "per_sample_error" (its standard error) and "ensemble".

        Raises:
            ValueError: The targets do not fit the predictions in shape or range.
        """

    def ood_metrics(self, other: Predictive) -> Metrics:
        """How well the uncertainty separates out-of-distribution (OOD) inputs from these.

        AUROC = P(u_out > u_in) + ½ P(u_out = u_in): 1 is perfect, ½ is chance. In regression u is
        the predictive variance, in classification the entropy, one minus the largest probability,
        and the mutual information.

        Args:
            other: The predictive of the same draws at OOD inputs.

        Returns:
            Metrics in the form of `metrics`; in regression those of the ensemble alone.

        Raises:
            TypeError: The other predictive is of another kind.
        """
        self._check_kind(other)
        return regression_ood_metrics(
            (self.epistemic, self.aleatoric), (other.epistemic, other.aleatoric)
        )

    def _check_kind(self, other: Predictive) -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"other: expected a {type(self).__name__} as this one, got "
                f"{type(other).__name__}; predict both with the same draws"
            )


@dataclass(frozen=True, eq=False)
class RegressionPredictive(Predictive):
    """Gaussian predictives with the same noise everywhere, N(f_θ(x), σ²) for each draw.

    Attributes:
        outputs: Network outputs of each draw, (S, N, C).
        noise_std: σ of the observation noise.
    """

    outputs: Tensor
    noise_std: float

    @property
    def samples(self) -> Tensor:
        """The network outputs of each draw, (S, N, C)."""
        return self.outputs

    @property
    def aleatoric(self) -> Tensor:
        return torch.full_like(self.mean, self.noise_std**2)

    def metrics(self, targets: Any, level: float = 0.95) -> Metrics:
        """NLL, RMSE, coverage of the central intervals, CRPS, and what is registered.

        Args:
            targets: (N, C), or (N,) for one output; a tensor, an array or a list.
            level: Probability of the central intervals.

        Returns:
            Per-draw metrics and ensemble metrics, as `Predictive.metrics` says.
        """
        checked = matching_targets(self.mean, _as_targets(targets, self.outputs))
        return regression_metrics(self.outputs, checked, self.noise_std, level)


@dataclass(frozen=True, eq=False)
class ClassificationPredictive(Predictive):
    """Probabilities of C ≥ 2 classes for each draw; one logit counts as two classes.

    Attributes:
        log_probabilities: log p(class|x, θₛ) of each draw, (S, N, C). They keep the likelihood of
            classes whose probability rounds to 0.
    """

    log_probabilities: Tensor

    @property
    def samples(self) -> Tensor:
        """The probabilities of each draw, (S, N, C)."""
        return self.log_probabilities.exp()

    @cached_property
    def mean(self) -> Tensor:
        return self._by_points(lambda log_p: ensemble_log_probabilities(log_p).exp())

    @property
    def probabilities(self) -> Tensor:
        """(N, C): p̄ = (1/S) Σₛ pₛ."""
        return self.mean

    @property
    def aleatoric(self) -> Tensor:
        return self._by_points(lambda log_p: (log_p.exp() * -log_p.expm1()).mean(dim=0))

    @cached_property
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
        """Accuracy, NLL, Brier scores, calibration errors, AUROC, and what is registered.

        Args:
            targets: Class numbers (N,); a tensor, an array or a list.
            bins: Number of bins of the calibration errors.

        Returns:
            Per-draw metrics and ensemble metrics, as `Predictive.metrics` says.
        """
        _, points, classes = self.log_probabilities.shape
        labels = class_labels(_as_targets(targets, self.log_probabilities), points, classes)
        return classification_metrics(self.log_probabilities, labels, bins)

    def ood_metrics(self, other: Predictive) -> Metrics:
        self._check_kind(other)
        assert isinstance(other, ClassificationPredictive)
        return ood_metrics(self.log_probabilities, other.log_probabilities)

    def _by_points(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of float64 log-probabilities, a few points at a time, in our precision."""
        draws, points, classes = self.log_probabilities.shape
        step = max(1, NUMBERS_AT_ONCE // (draws * classes))
        parts = [
            function(self.log_probabilities[:, start : start + step].double())
            for start in range(0, points, step)
        ]
        return torch.cat(parts).to(self.log_probabilities.dtype)


@dataclass(frozen=True, eq=False)
class DistributionPredictive(Predictive):
    """Predictives of any `torch.distributions.Distribution`, one for each draw, point and output.

    Attributes:
        distribution: Of batch shape (S, N, C) or (S, N).
        check_targets: From targets as given to those that the distribution takes.
    """

    distribution: Distribution
    check_targets: Callable[[Tensor], Tensor]

    @cached_property
    def samples(self) -> Tensor:
        """The expected target of each draw, (S, N, C)."""
        return _with_outputs(self.distribution.mean)

    @cached_property
    def aleatoric(self) -> Tensor:
        return _with_outputs(self.distribution.variance).mean(dim=0)

    def metrics(self, targets: Any) -> Metrics:
        """NLL, RMSE, and the registered regression metrics that need means alone.

        Args:
            targets: As the likelihood takes them; a tensor, an array or a list.

        Returns:
            Per-draw metrics and ensemble metrics, as `Predictive.metrics` says.
        """
        checked = self.check_targets(_as_targets(targets, self.samples))
        log_densities = log_density(self.distribution, checked, self.samples.ndim)
        return density_metrics(log_densities, self.samples, _with_outputs(checked, 2).double())


def log_density(distribution: Distribution, targets: Tensor, ndim: int) -> Tensor:
    """log p(y) of each point, of outputs with `ndim` axes (..., N, C): (..., N)."""
    values = distribution.log_prob(targets)
    return values.sum(dim=-1) if values.ndim == ndim else values


def _with_outputs(values: Tensor, ndim: int = 3) -> Tensor:
    """(S, N) as (S, N, 1)."""
    return values if values.ndim == ndim else values.unsqueeze(-1)


def _as_targets(targets: Any, like: Tensor) -> Tensor:
    return torch.as_tensor(targets).to(like.device)
