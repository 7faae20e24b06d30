"""The metrics that predictives report, by name and task; more can be added from outside.

`register` adds one. The assemblies (`classification_metrics`, `regression_metrics`,
`ood_metrics`) and the tables of reports iterate over what is registered.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["Metric", "directions", "labels", "register"]

TASKS = ("classification", "regression", "classification_ood", "regression_ood")

_METRICS: dict[tuple[str, str], Metric] = {}


@dataclass(frozen=True)
class Metric:
    """A registered metric.

    Attributes:
        name: Its key in the result of `predictive.metrics`.
        task: What it judges, as for `register`.
        label: Its heading in tables.
        higher_is_better: The direction, None where neither is better.
        function: The metric of one predictive, or None.
        ensemble: The metric of all draws together, or None: that of their average.
    """

    name: str
    task: str
    label: str
    higher_is_better: bool | None
    function: Callable[..., Tensor] | None
    ensemble: Callable[..., Tensor] | None

    def takes(self, option: str) -> bool:
        """Whether one of its functions has an argument of that name."""
        functions = [f for f in (self.function, self.ensemble) if f is not None]
        return any(option in inspect.signature(f).parameters for f in functions)

    def ensemble_takes(self, option: str) -> bool:
        """Whether its function of all draws has an argument of that name."""
        return self.ensemble is None or option in inspect.signature(self.ensemble).parameters


def call(function: Callable[..., Tensor], *arguments: Any, **options: Any) -> Tensor:
    """Call a metric with those of the options that it has arguments for."""
    known = inspect.signature(function).parameters
    return function(*arguments, **{name: v for name, v in options.items() if name in known})


def register(
    name: str,
    function: Callable[..., Tensor] | None,
    *,
    task: str,
    label: str | None = None,
    higher_is_better: bool | None = None,
    ensemble: Callable[..., Tensor] | None = None,
) -> None:
    """Add a metric, which then appears in `predictive.metrics(y)` and in the tables of reports.

    What `function` is called with depends on the task. The leading axes "..." are none or the
    draws, and it returns one number per predictive, (...):

    - "classification": `function(log_probabilities, labels)`, (..., N, C) and (N,);
    - "regression": `function(means, targets)`, (..., N, C) and (N, C);
    - "classification_ood": `function(log_probabilities)` is an uncertainty, (..., N, C) → (..., N),
      and its AUROC between in-distribution and OOD inputs is reported;
    - "regression_ood": the same with `function(epistemic, aleatoric)`, the two variances of the
      ensemble, (N, C) each → (N,).

    A function gets further values where it has arguments of these names: `bins`
    (classification), `noise_std` and `level` (regression). Regression metrics without `noise_std`
    apply to every likelihood with real targets, those with it to the Gaussian. An `ensemble`
    function gets the `weights` of the draws, (S,) or None where all count alike; without that
    argument it is refused for draws that have weights.

    Args:
        name: The key in `predictive.metrics(y)`.
        function: The metric of each draw; None where it has no meaning for a single draw.
        task: One of "classification", "regression", "classification_ood", "regression_ood".
        label: The heading in tables; the name when None.
        higher_is_better: The direction; None where neither is.
        ensemble: The metric of the averaged predictive, called like `function` with all draws
            (S, N, C). When None, `function` is called with the averaged log-probabilities, or
            with the mean and standard deviation of the mixture.

    Raises:
        ValueError: The task is unknown, there is no function, or the name is taken.

    Example:
        >>> def absolute_error(means, targets):
        ...     return (targets - means).abs().mean(dim=(-2, -1))
        >>> dims.metrics.register("mae", absolute_error, task="regression", label="MAE",
        ...                       higher_is_better=False)
    """
    if task not in TASKS:
        raise ValueError(f"task: {task!r} is unknown; give one of {', '.join(TASKS)}")
    given = function or ensemble
    if not callable(given):
        raise ValueError(f"function: {name!r} has none; give function, ensemble or both")
    taken = _METRICS.get((task, name))
    if taken is not None and _origin(taken.function or taken.ensemble) != _origin(given):
        raise ValueError(f"name: there is a {task} metric {name!r} already; choose another name")
    _METRICS[task, name] = Metric(name, task, label or name, higher_is_better, function, ensemble)


def registered(task: str) -> list[Metric]:
    """The metrics of a task, in the order in which they were registered.

    Args:
        task: As for `register`.

    Returns:
        Their `Metric` entries.
    """
    return [metric for metric in _METRICS.values() if metric.task == task]


def labels() -> dict[str, str]:
    """The headings of all metrics in tables, by name.

    Returns:
        A dict from metric name to label, in the order of registration.

    Example:
        >>> dims.metrics.labels()["nll"]
        'NLL'
    """
    return {metric.name: metric.label for metric in _METRICS.values()}


def directions() -> dict[str, bool | None]:
    """Whether a higher value is better, by metric name; None where neither direction is.

    Returns:
        A dict from metric name to True, False or None.

    Example:
        >>> dims.metrics.directions()["accuracy"]
        True
    """
    return {metric.name: metric.higher_is_better for metric in _METRICS.values()}


def _origin(function: Any) -> tuple[Any, Any]:
    """Where a function was defined, so that a module or notebook cell can be run again."""
    return getattr(function, "__module__", None), getattr(function, "__qualname__", repr(function))
