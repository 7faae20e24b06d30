"""Draws as an ArviZ DataTree (xarray)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["to_datatree"]


def to_datatree(draws: Draws) -> Any:
    """One chain of S draws; statistics that were not computed are left out.

    `lp` is −L, the log joint up to a constant; `diverging` marks trajectories that did not end
    as asked. Draws are independent, so chain diagnostics (autocorrelation, R̂) say nothing here.
    """
    try:
        import arviz_base
    except ImportError as error:
        raise ImportError("to_datatree needs arviz-base: pip install 'dims[arviz]'") from error
    from dims.sampling.draws.fields import ROW_NUMBERS, SAVED_TENSORS

    statistics: dict[str, Any] = {}
    for name in ROW_NUMBERS:
        values = getattr(draws, name).cpu().numpy()
        if not np.isnan(values).all():
            statistics[name] = values[None]
    if "loss" in statistics:
        statistics["lp"] = -statistics["loss"]
    if draws.evaluations.any():
        statistics["evaluations"] = draws.evaluations.cpu().numpy()[None]
    if any(status is not None for status in draws.status):
        names = ["" if status is None else status.name for status in draws.status]
        failed = [status is not None and not status.ok for status in draws.status]
        statistics["status"] = np.array([names])
        statistics["diverging"] = np.array([failed])
    if draws.verdict:
        statistics["verdict"] = np.array([draws.verdict])
    groups = {"posterior": {"parameters": draws.parameters.cpu().numpy()[None]}}
    if len(draws.times):
        groups["posterior"]["saved"] = draws.saved.cpu().numpy()[None]
        for name in SAVED_TENSORS[1:]:
            statistics[name] = getattr(draws, name).cpu().numpy()[None]
    if statistics:
        groups["sample_stats"] = statistics
    tree = arviz_base.from_dict(
        groups,
        dims={
            "parameters": ["parameter"],
            "saved": ["time", "parameter"],
            **{name: ["time"] for name in SAVED_TENSORS[1:]},
        },
        coords={
            "parameter": np.arange(draws.parameters.shape[1]),
            "time": draws.times.cpu().numpy(),
        },
    )
    tree.attrs |= {
        "method": draws.method,
        "seed": "" if draws.seed is None else draws.seed,
        "settings": json.dumps(draws.settings),
    }
    return tree
