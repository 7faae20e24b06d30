"""Predictives of any likelihood, from its torch distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from dims.prediction.base import Predictive, as_targets
from dims.prediction.metrics import Metrics
from dims.prediction.metrics.assemblies import density_metrics
from dims.prediction.quantiles import check_levels, cumulative, distribution_quantile
from dims.prediction.weights import average

__all__ = ["DistributionPredictive", "log_density"]


@dataclass(frozen=True, eq=False, repr=False)
class DistributionPredictive(Predictive):
    """Predictives of any `torch.distributions.Distribution`, one for each draw, point and output.

    Quantiles and coverage come from its `cdf`. Where torch knows none (Student-t) and for whole
    numbers (Poisson), quantiles are those of about 4 000 targets drawn for each point, always the
    same ones, and there is no coverage.

    Attributes:
        distribution: Of batch shape (S, N, C) or (S, N).
        check_targets: From targets as given to those that the distribution takes.
        weights: Weights of the draws, (S,); None: all draws count alike.
    """

    distribution: Distribution
    check_targets: Callable[[Tensor], Tensor]
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            self._set_weights(self.samples)

    @cached_property
    def samples(self) -> Tensor:
        """The expected target of each draw, (S, N, C)."""
        return _with_outputs(self.distribution.mean)

    @cached_property
    def aleatoric(self) -> Tensor:
        return average(_with_outputs(self.distribution.variance), self.weights)

    def quantile(self, q: float | Any) -> Tensor:
        levels = check_levels(q)
        found = torch.stack(
            [
                distribution_quantile(level, self.distribution, self.weights)
                for level in levels.reshape(-1).tolist()
            ]
        )
        found = _with_outputs(found).to(self.samples.dtype)
        return found if levels.ndim else found[0]

    def log_scores(self, targets: Any) -> Tensor:
        checked = self.check_targets(as_targets(targets, self.samples))
        return log_density(self.distribution, checked, self.samples.ndim).detach().double()

    def metrics(self, targets: Any, level: float = 0.95) -> Metrics:
        """NLL, RMSE, coverage where there is a `cdf`, and registered metrics of means alone.

        Args:
            targets: As the likelihood takes them; a tensor, an array or a list.
            level: Probability of the central intervals.

        Returns:
            Per-draw metrics and ensemble metrics, as `Predictive.metrics` says.
        """
        checked = self.check_targets(as_targets(targets, self.samples))
        cdf = cumulative(self.distribution)
        return density_metrics(
            self.log_scores(targets),
            self.samples,
            _with_outputs(checked, 2).double(),
            None if cdf is None else _with_outputs(cdf(checked.double())),
            level,
            self.weights,
        )


def log_density(distribution: Distribution, targets: Tensor, ndim: int) -> Tensor:
    """log p(y) of each point, of outputs with `ndim` axes (..., N, C): (..., N)."""
    values = distribution.log_prob(targets)
    return values.sum(dim=-1) if values.ndim == ndim else values


def _with_outputs(values: Tensor, ndim: int = 3) -> Tensor:
    """(S, N) as (S, N, 1)."""
    return values if values.ndim == ndim else values.unsqueeze(-1)
