"""Quantiles of mixtures: x with Σₛ wₛ Fₛ(x) = q.

Where the components have a distribution function F, its root is found by Newton steps inside a
bracket, which is halved where such a step would leave it or is slow. Other distributions, and
those of whole numbers, are sampled.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution

from dims.prediction.weights import average, effective_draws, spread

__all__ = ["check_levels", "cumulative", "distribution_quantile", "normal_mixture_quantile"]

# The share of targets below a sampled quantile is off by √(q(1 − q)/4096), at most 0.008.
SAMPLES = 4096
MOST_STEPS = 300
EPSILON = torch.finfo(torch.float64).eps
# What a root may miss q by: components in float32 have rougher distribution functions.
CDF_SLACK = 1e-5


def check_levels(q: Any) -> Tensor:
    """Probabilities strictly between 0 and 1 in float64, () or (Q,)."""
    levels = torch.as_tensor(q, dtype=torch.float64).detach().cpu()
    if levels.ndim > 1 or levels.numel() == 0:
        raise ValueError(f"q: expected a number or a list of them, got shape {tuple(levels.shape)}")
    if not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"q: must lie strictly between 0 and 1, got {levels.tolist()}")
    return levels


def normal_mixture_quantile(
    level: float, means: Tensor, stds: Tensor, weights: Tensor | None
) -> Tensor:
    """The quantile of Σₛ wₛ N(μₛ, σₛ²), in float64.

    Args:
        level: q, strictly between 0 and 1.
        means: (S, ...).
        stds: Positive, in the shape of the means.
        weights: (S,); None weighs all alike.

    Returns:
        The quantiles, (...).
    """
    means, stds = means.double(), stds.double()
    # Below the lowest quantile of a component every F is below q, above the highest one over it.
    each = means + stds * torch.special.ndtri(means.new_tensor(level))

    def cdf(x: Tensor) -> Tensor:
        return average(torch.special.ndtr((x - means) / stds), weights)

    def density(x: Tensor) -> Tensor:
        z = (x - means) / stds
        return average((-0.5 * z.square()).exp() / stds, weights) / math.sqrt(2 * math.pi)

    return _root(cdf, density, level, each.amin(dim=0), each.amax(dim=0))


def distribution_quantile(
    level: float, distribution: Distribution, weights: Tensor | None
) -> Tensor:
    """The quantile of a mixture of any distributions, one for each draw and point.

    Args:
        level: q, strictly between 0 and 1.
        distribution: Of batch shape (S, ...).
        weights: (S,); None weighs all alike.

    Returns:
        The quantiles in float64, (...).
    """
    each = cumulative(distribution)
    if each is None:
        return _sampled_quantile(level, distribution, weights)
    known = _unvalidated(distribution)

    def cdf(x: Tensor) -> Tensor:
        return average(each(x), weights)

    def density(x: Tensor) -> Tensor:
        return average(known.log_prob(x).exp(), weights)

    means, variances = distribution.mean.double(), distribution.variance.double()
    centre = average(means, weights)
    width = (average(variances, weights) + spread(means, weights)).sqrt()
    # Cantelli's inequality: no distribution of this mean and variance has a quantile outside.
    odds = math.sqrt(level / (1 - level))
    low, high = centre - width / odds, centre + width * odds
    bounds = [getattr(distribution.support, f"{side}_bound", None) for side in ("lower", "upper")]
    if bounds[0] is not None:
        low = torch.maximum(low, torch.as_tensor(bounds[0]).to(low).amin())
    if bounds[1] is not None:
        high = torch.minimum(high, torch.as_tensor(bounds[1]).to(high).amax())
    found = _root(cdf, density, level, low, high)
    # A mean or variance that does not exist (Cauchy) leaves no bracket.
    if not ((cdf(found) - level).abs() <= CDF_SLACK).all():
        return _sampled_quantile(level, distribution, weights)
    return found


def cumulative(distribution: Distribution) -> Callable[[Tensor], Tensor] | None:
    """F of every component, x (...) → (S, ...); None where it is not known or has steps."""
    known = _unvalidated(distribution)
    try:
        discrete = known.support is None or known.support.is_discrete
        with _same_numbers():
            known.cdf(known.sample())
    except NotImplementedError:
        return None
    # Some formulas leave [0, 1] where a component has no probability.
    return None if discrete or known.event_shape else lambda x: known.cdf(x).clamp(0, 1)


def _unvalidated(distribution: Distribution) -> Distribution:
    """A copy that takes values outside the support of some of its components."""
    known = copy.copy(distribution)
    known._validate_args = False
    if isinstance(known, TransformedDistribution):
        known.base_dist = _unvalidated(known.base_dist)
    return known


@contextmanager
def _same_numbers() -> Iterator[None]:
    """Torch distributions draw from the global generator, which is as before outside."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(0)
        yield


def _root(
    cdf: Callable[[Tensor], Tensor],
    density: Callable[[Tensor], Tensor],
    level: float,
    low: Tensor,
    high: Tensor,
) -> Tensor:
    """x in [low, high] with F(x) = q, elementwise."""
    x = 0.5 * (low + high)
    before = width = high - low
    moving = torch.ones_like(x, dtype=torch.bool)
    for _ in range(MOST_STEPS):
        error = cdf(x) - level
        low = torch.where(error <= 0, x, low)
        high = torch.where(error >= 0, x, high)
        step = -error / density(x)
        # A step that does not halve the one before is slow: near a gap between two components
        # the density vanishes and Newton's method jumps to and fro.
        newton = (x + step > low) & (x + step < high) & (2 * step.abs() < before.abs())
        step = torch.where(newton, step, 0.5 * (low + high) - x)
        # An element that has arrived stays, whatever the others do.
        x, before = torch.where(moving, x + step, x), step
        moving = moving & (step.abs() > 4 * EPSILON * torch.maximum(x.abs(), width))
        if not moving.any():
            break
    return x


def _sampled_quantile(level: float, distribution: Distribution, weights: Tensor | None) -> Tensor:
    """The quantile of targets drawn from every component, always the same ones."""
    shape = (*distribution.batch_shape, *distribution.event_shape)
    draws = shape[0]
    each = math.ceil(SAMPLES / (draws if weights is None else effective_draws(weights)))
    with _same_numbers():
        drawn = distribution.sample(torch.Size([each])).double()  # (each, S, ...)
    ordered, order = drawn.flatten(0, 1).sort(dim=0)
    if weights is None:
        weights = drawn.new_full((draws,), 1 / draws)
    share = (weights.to(drawn) / each).repeat(each)[order].cumsum(dim=0)
    place = (share < level).sum(dim=0, keepdim=True).clamp(max=len(ordered) - 1)
    return ordered.gather(0, place).squeeze(0)
