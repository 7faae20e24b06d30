"""Draws as an ArviZ DataTree (xarray)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dims.sampling.draws.names import parameter_names

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["to_datatree"]

MOST_NAMES = 1_000_000


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

    known = [name for name in ROW_NUMBERS if not getattr(draws, name).isnan().all()]
    known += ["evaluations"] if draws.evaluations.any() else []
    known += SAVED_TENSORS[1:] if len(draws.times) else []
    known += ["weights"] if draws.weights is not None else []
    statistics = {name: _one_chain(getattr(draws, name).cpu()) for name in known}
    if "loss" in statistics:
        statistics["lp"] = -statistics["loss"]
    if any(status is not None for status in draws.status):
        statistics["status"] = _one_chain(["" if s is None else s.name for s in draws.status])
        statistics["diverging"] = _one_chain([s is not None and not s.ok for s in draws.status])
    if draws.verdict:
        statistics["verdict"] = _one_chain(draws.verdict)
    groups = {"posterior": {"parameters": _one_chain(draws.parameters.cpu())}}
    if len(draws.times):
        groups["posterior"]["saved"] = _one_chain(draws.saved.cpu())
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
            "parameter": _names(draws),
            "time": draws.times.cpu().numpy(),
        },
    )
    tree.attrs |= {
        "method": draws.method,
        "seed": "" if draws.seed is None else draws.seed,
        "settings": json.dumps(draws.settings),
    }
    return tree


def _names(draws: Draws) -> np.ndarray:
    """layer.weight[3, 2] and so on; numbers where names would fill the memory."""
    vector = draws.surface.vector
    if vector.size > MOST_NAMES:
        return np.arange(vector.size)
    return np.array(list(parameter_names(zip(vector.names, vector.shapes, strict=True))))


def _one_chain(values: Any) -> np.ndarray:
    return np.asarray(values)[None]
