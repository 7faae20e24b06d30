"""All registered metrics of S draws at once: per draw, and of the ensemble."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from dims.prediction.metrics import shipped  # noqa: F401  (it registers the metrics)
from dims.prediction.metrics.checks import (
    check_draw_axis,
    check_draws,
    check_level,
    check_noise,
    check_paired,
)
from dims.prediction.metrics.classification import ensemble_log_probabilities
from dims.prediction.metrics.detection import ood_auroc
from dims.prediction.metrics.registry import Metric, call, registered
from dims.prediction.metrics.table import Metrics
from dims.prediction.weights import average, check_weights, log_average, spread

__all__ = ["Metrics", "classification_metrics", "ood_metrics", "regression_metrics"]


def classification_metrics(
    log_probabilities: Tensor, labels: Tensor, bins: int = 10, weights: Tensor | None = None
) -> Metrics:
    """All classification metrics of S draws.

    Args:
        log_probabilities: Of each draw, (S, N, C).
        labels: Class numbers, (N,).
        bins: Number of bins of the calibration errors.
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        The per-draw metrics and the ensemble metrics.

    Raises:
        ValueError: Shapes or values are not as described.

    Example:
        >>> log_p = torch.log_softmax(logits, dim=-1)             # (S, N, C)
        >>> dims.metrics.classification_metrics(log_p, labels)["ensemble"]["nll"]
    """
    log_p = check_draws(log_probabilities, "log_probabilities")
    weights = _checked_weights(weights, log_p)
    mixture = ensemble_log_probabilities(log_p, weights)
    return _evaluate(
        registered("classification"),
        lambda function, **more: call(function, log_p, labels, bins=bins, **more),
        lambda function: call(function, mixture, labels, bins=bins),
        weights,
    )


def ood_metrics(
    log_probabilities_in: Tensor, log_probabilities_out: Tensor, weights: Tensor | None = None
) -> Metrics:
    """AUROC of separating OOD from in-distribution inputs by the uncertainty of S draws.

    Mutual information compares draws, so it has no per-draw value.

    Args:
        log_probabilities_in: At in-distribution inputs, (S, N_in, C).
        log_probabilities_out: Of the same draws at out-of-distribution inputs, (S, N_out, C).
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        The per-draw metrics and the ensemble metrics.

    Raises:
        ValueError: The two differ in draws or classes, or are not log-probabilities.

    Example:
        >>> inside, outside = draws.predict(x), draws.predict(x_other)
        >>> dims.metrics.ood_metrics(inside.log_probabilities, outside.log_probabilities)
    """
    inside = check_draws(log_probabilities_in, "log_probabilities_in")
    outside = check_draws(log_probabilities_out, "log_probabilities_out")
    if (inside.shape[0], inside.shape[2]) != (outside.shape[0], outside.shape[2]):
        raise ValueError(
            f"log_probabilities_in {tuple(inside.shape)} and log_probabilities_out "
            f"{tuple(outside.shape)} must have the same draws and classes; predict both with "
            "the same draws"
        )
    weights = _checked_weights(weights, inside)
    mixtures = [ensemble_log_probabilities(each, weights) for each in (inside, outside)]
    return _evaluate(
        registered("classification_ood"),
        lambda score, **more: ood_auroc(*(call(score, each, **more) for each in (inside, outside))),
        lambda score: ood_auroc(score(mixtures[0]), score(mixtures[1])),
        weights,
    )


def regression_metrics(
    means: Tensor,
    targets: Tensor,
    noise_std: float | Tensor,
    level: float = 0.95,
    weights: Tensor | None = None,
) -> Metrics:
    """All regression metrics of S draws with Gaussian noise.

    Args:
        means: Of each draw, (S, N) or (S, N, D).
        targets: (N,) or (N, D).
        noise_std: σ, a number or a tensor that broadcasts to the means.
        level: Probability of the central intervals of `coverage`.
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        The per-draw metrics and the ensemble metrics.

    Raises:
        ValueError: Shapes or values are not as described.

    Example:
        >>> dims.metrics.regression_metrics(means, targets, 0.1)["ensemble"]["crps"]
    """
    means = check_draw_axis(means, targets)
    checked, _ = check_paired(means, targets)
    weights = _checked_weights(weights, checked)
    noise = average(check_noise(noise_std, checked).square(), weights)
    mean, std = average(checked, weights), (noise + spread(checked, weights)).sqrt()
    return _evaluate(
        registered("regression"),
        lambda function, **more: call(
            function, means, targets, noise_std=noise_std, level=level, **more
        ),
        lambda function: call(function, mean, targets, noise_std=std, level=level),
        weights,
    )


def density_metrics(
    log_densities: Tensor,
    means: Tensor,
    targets: Tensor,
    cdf: Tensor | None = None,
    level: float = 0.95,
    weights: Tensor | None = None,
) -> Metrics:
    """NLL, coverage, and the regression metrics of means alone, for draws of any likelihood.

    Args:
        log_densities: log p(y|θₛ) of each draw and point, (S, N).
        means: The expected target of each draw, (S, N, D).
        targets: (N, D).
        cdf: P(y' ≤ y|θₛ) of each draw and target, (S, N, D); None leaves out the coverage.
        level: Probability of the central intervals of the coverage.
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        The per-draw metrics and the ensemble metrics.
    """
    own = nll_metrics(log_densities, weights)
    if cdf is not None:

        def inside(values: Tensor) -> Tensor:
            return ((2 * values - 1).abs() <= check_level(level)).double().mean(dim=(-2, -1))

        each = inside(cdf.detach().double())
        together = inside(average(cdf.detach().double(), weights))
        covered = _readings({"coverage": each}, {"coverage": together}, weights)
        own = _joined(own, covered)
    means = check_draw_axis(means, targets).double()
    rest = _evaluate(
        [metric for metric in registered("regression") if not metric.takes("noise_std")],
        lambda function, **more: call(function, means, targets, **more),
        lambda function: call(function, average(means, weights), targets),
        weights,
    )
    return _joined(own, rest)


def nll_metrics(log_densities: Tensor, weights: Tensor | None = None) -> Metrics:
    """The NLL alone.

    Args:
        log_densities: log p(y|θₛ) of each draw and point, (S, N).
        weights: Of the draws, (S,); None weighs all alike.

    Returns:
        The per-draw metrics and the ensemble metrics.
    """
    log_p = log_densities.detach().double()
    ensemble = -log_average(log_p, weights).mean(dim=-1)
    return _readings({"nll": -log_p.mean(dim=-1)}, {"nll": ensemble}, weights)


def regression_ood_metrics(
    inside: tuple[Tensor, Tensor], outside: tuple[Tensor, Tensor]
) -> Metrics:
    """AUROC of separating OOD from in-distribution inputs by the predictive variance.

    Args:
        inside: Epistemic and aleatoric variance at in-distribution inputs, (N_in, C) each.
        outside: The same at out-of-distribution inputs, (N_out, C) each.

    Returns:
        Ensemble metrics; a single draw has no variance but the noise.
    """
    scores = ((m.name, m.ensemble or m.function) for m in registered("regression_ood"))
    return _readings(
        {}, {name: ood_auroc(score(*inside), score(*outside)) for name, score in scores if score}
    )


def _evaluate(
    metrics: list[Metric],
    of_draws: Callable[..., Tensor],
    of_average: Callable[[Callable[..., Tensor]], Tensor],
    weights: Tensor | None,
) -> Metrics:
    """Call the functions of each metric with the draws, and with their average."""
    per_draw, ensemble = {}, {}
    for metric in metrics:
        if metric.function is not None:
            per_draw[metric.name] = _checked(metric, of_draws(metric.function), 1)
        if metric.ensemble is not None:
            _check_takes_weights(metric, weights)
            ensemble[metric.name] = _checked(metric, of_draws(metric.ensemble, weights=weights), 0)
        elif metric.function is not None:
            ensemble[metric.name] = _checked(metric, of_average(metric.function), 0)
    return _readings(per_draw, ensemble, weights)


def _checked_weights(weights: Tensor | None, draws: Tensor) -> Tensor | None:
    return None if weights is None else check_weights(weights, len(draws)).to(draws.device)


def _check_takes_weights(metric: Metric, weights: Tensor | None) -> None:
    """A function of all draws that knows no weights would give the metric of equal ones."""
    if weights is not None and not metric.ensemble_takes("weights"):
        raise TypeError(
            f"metric {metric.name!r}: the draws have weights, and its ensemble= function takes "
            'none; give it an argument `weights` ((S,) or None), or predict with weights="equal"'
        )


def _checked(metric: Metric, value: object, axes: int) -> Tensor:
    """What a metric returned: one number per predictive, that is, no axis but the draws."""
    if not isinstance(value, Tensor) or value.ndim != axes:
        found = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(
            f"metric {metric.name!r}: it must return a tensor with one number per predictive, "
            f"got {found}; reduce over the inputs and keep the leading axis of the draws"
        )
    return value


def _readings(
    per_draw: dict[str, Tensor], ensemble: dict[str, Tensor], weights: Tensor | None = None
) -> Metrics:
    """Mean, standard error std/√S (nan for one draw) and ensemble value of each metric."""

    def error(values: Tensor) -> float:
        if weights is not None:
            # The same for equal weights: √(Σ wₛ² (mₛ − m̄)² / (1 − Σ wₛ²)).
            squares = weights.square()
            rest = 1 - squares.sum()
            off = (values - average(values, weights)).square()
            return ((squares * off).sum() / rest).sqrt().item() if rest > 0 else math.nan
        if len(values) == 1:
            return math.nan
        return (values.std() / math.sqrt(len(values))).item()

    return Metrics(
        {
            "per_sample": {n: average(values, weights).item() for n, values in per_draw.items()},
            "per_sample_error": {name: error(values) for name, values in per_draw.items()},
            "ensemble": {name: value.item() for name, value in ensemble.items()},
        }
    )


def _joined(first: Metrics, second: Metrics) -> Metrics:
    return Metrics({reading: {**first[reading], **second[reading]} for reading in first})
