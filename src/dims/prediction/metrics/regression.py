"""Regression: targets (N,) or (N, D), means (..., *targets.shape), noise_std broadcast to means.

One predictive is N(mean, noise_std²) per output; an ensemble is their mixture, of equal weights
1/S unless `weights` (S,) are given.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dims.prediction.metrics.checks import check_draw_axis, check_level, check_noise, check_paired
from dims.prediction.weights import average, log_average

__all__ = ["coverage", "gaussian_crps", "gaussian_nll", "root_mean_squared_error"]
__all__ += ["mixture_coverage", "mixture_crps", "mixture_nll"]


def root_mean_squared_error(means: Tensor, targets: Tensor) -> Tensor:
    """Typical distance of mean and target over inputs and outputs: √(1/(ND) Σ (y − μ)²).

    Args:
        means: Of one predictive or of several, (..., *targets.shape).
        targets: (N,) or (N, D).

    Returns:
        The error of each predictive in the units of the targets, (...).

    Raises:
        ValueError: Shapes or values are not as described.

    Example:
        >>> dims.metrics.root_mean_squared_error(predictive.mean, targets)
    """
    means, targets = check_paired(means, targets)
    return _over_inputs((targets - means).square(), targets).sqrt()


def gaussian_nll(means: Tensor, targets: Tensor, noise_std: float | Tensor) -> Tensor:
    """Mean over inputs of −Σ_d log N(y_d | μ_d, σ²), constants included.

    Args:
        means: Of one predictive or of several, (..., *targets.shape).
        targets: (N,) or (N, D).
        noise_std: σ, a number or a tensor that broadcasts to the means.

    Returns:
        The NLL of each predictive in nats, (...).

    Raises:
        ValueError: Shapes or values are not as described.

    Example:
        >>> dims.metrics.gaussian_nll(predictive.samples, y, 0.1)            # of each draw, (S,)
    """
    return -gaussian_log_density(means, targets, noise_std).mean(dim=-1)


def mixture_nll(
    means: Tensor, targets: Tensor, noise_std: float | Tensor, weights: Tensor | None = None
) -> Tensor:
    """Mean over inputs of −log (1/S) Σₛ Π_d N(y_d | μₛ_d, σ²), constants included.

    Args:
        means: Of each draw, (S, *targets.shape).
        targets: (N,) or (N, D).
        noise_std: σ, a number or a tensor that broadcasts to the means.
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        A float64 number.

    Example:
        >>> dims.metrics.mixture_nll(predictive.outputs, targets, predictive.noise_std)
    """
    log_density = gaussian_log_density(check_draw_axis(means, targets), targets, noise_std)
    return -log_average(log_density, weights).mean(dim=-1)


def coverage(
    means: Tensor, targets: Tensor, noise_std: float | Tensor, level: float = 0.95
) -> Tensor:
    """Share of targets in the central interval of that level: |2F(y) − 1| ≤ level.

    Args:
        means: Of one predictive or of several, (..., *targets.shape).
        targets: (N,) or (N, D).
        noise_std: σ, a number or a tensor that broadcasts to the means.
        level: Probability of the interval.

    Returns:
        The covered share of each predictive, (...).

    Example:
        >>> dims.metrics.coverage(predictive.outputs, targets, predictive.noise_std, level=0.9)
    """
    centred = _centred_cdf(means, targets, noise_std)
    return _over_inputs((centred.abs() <= check_level(level)).double(), targets)


def mixture_coverage(
    means: Tensor,
    targets: Tensor,
    noise_std: float | Tensor,
    level: float = 0.95,
    weights: Tensor | None = None,
) -> Tensor:
    """`coverage` of the mixture, whose distribution function is F = (1/S) Σₛ Fₛ.

    It is the share of targets inside `predictive.interval(level)`, found without its ends.

    Args:
        means: Of each draw, (S, *targets.shape).
        targets: (N,) or (N, D).
        noise_std: σ, a number or a tensor that broadcasts to the means.
        level: Probability of the interval.
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        A float64 number.

    Example:
        >>> dims.metrics.mixture_coverage(predictive.outputs, targets, predictive.noise_std)
    """
    each = _centred_cdf(check_draw_axis(means, targets), targets, noise_std)
    centred = average(each, weights)
    return _over_inputs((centred.abs() <= check_level(level)).double(), targets)


def gaussian_crps(means: Tensor, targets: Tensor, noise_std: float | Tensor) -> Tensor:
    """Continuous ranked probability score of a Gaussian: E|X − y| − ½ E|X − X′|.

    The second term is σ/√π; averaged over inputs and outputs (Gneiting and Raftery 2007).

    Args:
        means: Of one predictive or of several, (..., *targets.shape).
        targets: (N,) or (N, D).
        noise_std: σ, a number or a tensor that broadcasts to the means.

    Returns:
        The CRPS of each predictive in the units of the targets, (...).

    Example:
        >>> dims.metrics.gaussian_crps(predictive.outputs, targets, predictive.noise_std)
    """
    means, targets = check_paired(means, targets)
    std = check_noise(noise_std, means)
    score = _mean_distance(targets - means, std) - std / math.sqrt(math.pi)
    return _over_inputs(score, targets)


def mixture_crps(
    means: Tensor, targets: Tensor, noise_std: float | Tensor, weights: Tensor | None = None
) -> Tensor:
    """CRPS of a mixture of S Gaussians, in closed form (Grimit et al. 2006).

    Σᵢ wᵢ A(y − μᵢ, σᵢ) − ½ Σᵢⱼ wᵢwⱼ A(μᵢ − μⱼ, √(σᵢ² + σⱼ²)), A(m, s) = E|N(m, s²)|, wᵢ = 1/S.

    Args:
        means: Of each draw, (S, *targets.shape).
        targets: (N,) or (N, D).
        noise_std: σ, a number or a tensor that broadcasts to the means.
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        A float64 number.

    Example:
        >>> dims.metrics.mixture_crps(predictive.outputs, targets, predictive.noise_std)
    """
    means, targets = check_paired(check_draw_axis(means, targets), targets)
    std = check_noise(noise_std, means)
    # Row by row: all pairs at once would take S times the memory of the draws. The pairs i < j
    # count twice, and A(0, √2 σ) = 2σ/√π is the diagonal.
    shares = means.new_ones(len(means)) if weights is None else weights.to(means)
    shares = shares.view(-1, *[1] * targets.ndim)
    half_spread = (shares.square() * std).sum(dim=0) / math.sqrt(math.pi)
    for i in range(means.shape[0] - 1):
        width = torch.hypot(std[i], std[i + 1 :])
        distances = _mean_distance(means[i] - means[i + 1 :], width)
        half_spread = half_spread + shares[i] * (shares[i + 1 :] * distances).sum(dim=0)
    accuracy_term = average(_mean_distance(targets - means, std), weights)
    return _over_inputs(accuracy_term - half_spread / shares.sum() ** 2, targets)


def gaussian_log_density(means: Tensor, targets: Tensor, noise_std: float | Tensor) -> Tensor:
    """log Π_d N(y_d | μ_d, σ²) of each input, (..., N)."""
    means, targets = check_paired(means, targets)
    std = check_noise(noise_std, means)
    log_p = -0.5 * ((targets - means) / std).square() - std.log() - 0.5 * math.log(2 * math.pi)
    return log_p.sum(dim=-1) if targets.ndim == 2 else log_p


def _centred_cdf(means: Tensor, targets: Tensor, noise_std: float | Tensor) -> Tensor:
    """2Φ((y − μ)/σ) − 1 = erf((y − μ)/(σ√2)): 0 at the median, ±1 in the tails."""
    means, targets = check_paired(means, targets)
    return torch.erf((targets - means) / (check_noise(noise_std, means) * math.sqrt(2)))


def _mean_distance(mean: Tensor, std: Tensor) -> Tensor:
    """E|X| of X ~ N(m, s²): m erf(m/(s√2)) + s √(2/π) exp(−m²/(2s²))."""
    z = mean / std
    tail = math.sqrt(2 / math.pi) * std * torch.exp(-0.5 * z.square())
    return mean * torch.erf(z / math.sqrt(2)) + tail


def _over_inputs(values: Tensor, targets: Tensor) -> Tensor:
    """Mean over inputs and outputs, the axes of the targets."""
    return values.mean(dim=tuple(range(-targets.ndim, 0)))
