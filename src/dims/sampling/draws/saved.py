"""Draws as they were at a saved time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from dims.sampling.draws.fields import SAVED_TENSORS

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["draws_at"]


def draws_at(draws: Draws, time: float) -> Draws:
    """See `Draws.at`."""
    known = draws.times.tolist()
    if time in known:
        place = known.index(time)
        return type(draws)(
            parameters=draws.saved[:, place],
            method=draws.method,
            surface=draws.surface,
            map_parameters=draws.map_parameters,
            status=draws.status,
            loss=draws.saved_loss[:, place],
            gradient_norm=draws.saved_gradient_norm[:, place],
            kinetic_energy=draws.saved_kinetic_energy[:, place],
            seed=draws.seed,
            settings=draws.settings,
        )
    if time == draws.settings.get("max_time"):
        nothing: dict[str, Any] = {
            name: torch.empty(0, dtype=torch.float64) for name in ("times", *SAVED_TENSORS)
        }
        return replace(draws, mixture=None, **nothing)
    listed = ", ".join(f"{entry:g}" for entry in known) or "none; give save_at=(...) to sample"
    raise ValueError(f"time: {time} was not saved; saved times: {listed}")
