"""`Predictive`: what draws say about new inputs, the mixture of their predictive distributions.

Uncertainty splits by the law of total variance: `aleatoric` is the noise that each draw expects,
averaged over the draws, and `epistemic` is the disagreement of the draws about the mean. Draws
count alike unless they have weights wₛ; then every average over draws is Σₛ wₛ(·).
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from dims.prediction.metrics import Metrics
from dims.prediction.metrics.assemblies import regression_ood_metrics
from dims.prediction.metrics.checks import check_level
from dims.prediction.showing import Shown
from dims.prediction.weights import average, check_weights, same_weights, spread

__all__ = ["Predictive", "as_targets"]

Self = TypeVar("Self", bound="Predictive")


class Predictive(Shown, ABC):
    """S predictive distributions of N points with C outputs or classes.

    `draws.predict(x)` returns one. The target is y itself in regression and its one-hot vector
    in classification. The equations below are those of equal weights wₛ = 1/S.

    Attributes:
        weights: Weights of the draws, (S,); None: all draws count alike.

    Example:
        >>> predictive = draws.predict(x)
        >>> predictive.mean, predictive.variance.sqrt()
        >>> low, high = predictive.interval(0.95)
        >>> predictive.metrics(y)["ensemble"]["nll"]
        >>> predictive.ood_metrics(draws.predict(x_other))["ensemble"]
    """

    weights: Tensor | None = None

    def _facts(self) -> dict[str, Any]:
        members, points, outputs = self.samples.shape
        return {"members": members, "points": points, "outputs": outputs}

    @property
    @abstractmethod
    def samples(self) -> Tensor:
        """The expected target of each draw, (S, N, C)."""

    @cached_property
    def mean(self) -> Tensor:
        """The expected target, (N, C): (1/S) Σₛ E[y|θₛ]."""
        return average(self.samples, self.weights)

    @property
    @abstractmethod
    def aleatoric(self) -> Tensor:
        """Noise variance, (N, C): (1/S) Σₛ Var[y|θₛ]."""

    @cached_property
    def epistemic(self) -> Tensor:
        """Variance of the draws' means, (N, C): (1/S) Σₛ (E[y|θₛ] − mean)²."""
        return spread(self.samples, self.weights)

    @property
    def variance(self) -> Tensor:
        """Variance of the target, (N, C): aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    def with_weights(self: Self, weights: Tensor | None) -> Self:
        """The same predictions with other weights of the draws.

        Args:
            weights: (S,), not negative, with the sum 1; None weighs all draws alike.

        Returns:
            A predictive that shares the numbers of this one.

        Raises:
            TypeError: A predictive class of your own has no field `weights`.
            ValueError: The weights do not fit.

        Example:
            >>> draws.predict(x).with_weights(torch.tensor([0.5, 0.25, 0.25])).mean
        """
        if weights is None and self.weights is None:
            return self
        if "weights" in getattr(type(self), "__dataclass_fields__", {}):
            return dataclasses.replace(self, weights=weights)  # type: ignore[type-var]
        raise TypeError(
            f"weights: {type(self).__name__} has none; make it a dataclass with a field "
            '`weights: Tensor | None = None`, or predict with weights="equal"'
        )

    def quantile(self, q: float | Any) -> Tensor:
        """Quantiles of the target: x with (1/S) Σₛ P(y ≤ x|θₛ) = q, for each output by itself.

        They are those of the mixture of all draws, which need not be near a Gaussian.

        Args:
            q: A probability strictly between 0 and 1, or a list of them.

        Returns:
            (N, C) for a number, (Q, N, C) for a list, in the precision of the predictions.

        Raises:
            ValueError: A probability is out of range.
            TypeError: The targets have no order (classes).

        Example:
            >>> median = draws.predict(x).quantile(0.5)
        """
        raise TypeError(f"quantile: {type(self).__name__} has no quantiles of its targets")

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The central interval of the target: its quantiles at (1 − level)/2 and (1 + level)/2.

        Args:
            level: Probability of the interval, strictly between 0 and 1.

        Returns:
            Lower and upper ends, (N, C) each.

        Raises:
            ValueError: The level is out of range.
            TypeError: The targets have no order (classes).

        Example:
            >>> low, high = draws.predict(x).interval(0.9)
        """
        check_level(level)
        low, high = self.quantile([0.5 * (1 - level), 0.5 * (1 + level)])
        return low, high

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

    def log_scores(self, targets: Any) -> Tensor:
        """log p(y|θₛ) of each draw and point: what `dims.prediction.stacking` weighs draws by.

        Args:
            targets: The true targets of the N points, as in training.

        Returns:
            (S, N), in float64.

        Raises:
            ValueError: The targets do not fit the predictions in shape or range.

        Example:
            >>> draws.predict(x).log_scores(y).mean(dim=1)
        """
        raise TypeError(f"log_scores: {type(self).__name__} does not define them")

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
            ValueError: The other predictive has other weights.
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
        if not same_weights(self.weights, other.weights):
            raise ValueError("other: it has other weights; predict both with the same draws")

    def _set_weights(self, like: Tensor) -> None:
        """Check the weights of a dataclass, and move them to its predictions (S, ...)."""
        if self.weights is not None:
            checked = check_weights(self.weights, like.shape[0]).to(like.device)
            object.__setattr__(self, "weights", checked)  # the dataclasses are frozen


def as_targets(targets: Any, like: Tensor) -> Tensor:
    """Targets as a tensor beside the predictions."""
    return torch.as_tensor(targets).to(like.device)
