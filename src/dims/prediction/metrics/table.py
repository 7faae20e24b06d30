"""Metrics as a person reads them: one row for each, with the ensemble beside the draws."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping

__all__ = ["Metrics"]


class Metrics(dict[str, dict[str, float]]):
    """Metrics by name, three times: a dict that is shown as a table.

    Args:
        readings: "per_sample" has the per-draw metrics, their mean over the draws,
            "per_sample_error" the standard error of that mean, and "ensemble" the ensemble metrics.

    Example:
        >>> metrics = draws.predict(x).metrics(y)
        >>> metrics["ensemble"]["nll"]
    """

    def __init__(self, readings: Mapping[str, dict[str, float]]) -> None:
        super().__init__(readings)

    def __repr__(self) -> str:
        width = max((len(name) for name, *_ in self._rows()), default=0)
        lines = [f"{name:<{width}}  {one:>10}  {each}" for name, one, each in self._rows()]
        return "\n".join([f"{'':<{width}}  {'ensemble':>10}  per draw", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{one}</td>"
            f"<td style='text-align:left'>{each}</td></tr>"
            for name, one, each in self._rows()
        )
        return f"<table><tr><th></th><th>ensemble</th><th>per draw</th></tr>{rows}</table>"

    def _rows(self) -> list[tuple[str, str, str]]:
        draws, errors, ensemble = (
            self.get(reading, {}) for reading in ("per_sample", "per_sample_error", "ensemble")
        )
        rows = []
        for name in {**ensemble, **draws}:
            one = f"{ensemble[name]:.4g}" if name in ensemble else ""
            each = f"{draws[name]:.4g}" if name in draws else ""
            error = errors.get(name, math.nan)
            rows.append((name, one, each if math.isnan(error) else f"{each} ± {error:.2g}"))
        return rows
