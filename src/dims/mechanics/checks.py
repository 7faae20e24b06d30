"""Checks of the arguments of `integrate`; each error names the argument and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dims.mechanics.dynamics import Dynamics
from dims.model.shapes import check_integer, check_rows
from dims.surface.base import BaseSurface

__all__ = ["check_kinds", "check_max_time", "check_numbers", "check_start", "check_times"]
__all__ += ["start_losses"]


def check_kinds(
    surface: object, dynamics: object, stop: object, max_time: object, max_evaluations: int | None
) -> None:
    """What is given is of the right kind."""
    if not isinstance(surface, BaseSurface):
        raise TypeError(
            f"surface: expected a Surface or LossSurface, got {type(surface).__name__}; "
            "wrap a function as dims.Surface(function)"
        )
    if not isinstance(dynamics, Dynamics):
        raise TypeError(
            f"dynamics: expected an object such as dims.geodesic() or dims.dissipative(), "
            f"got {dynamics!r}"
        )
    if stop is not None and not callable(stop):
        raise TypeError(f"stop: expected a condition such as dims.AtRest(), got {stop!r}")
    check_max_time(max_time)
    if max_evaluations is not None and max_evaluations < 1:
        raise ValueError(f"max_evaluations: must be at least 1, got {max_evaluations}")


def check_max_time(max_time: object) -> None:
    """The end of a trajectory, a positive number."""
    if isinstance(max_time, bool) or not isinstance(max_time, (int, float)):
        raise TypeError(f"max_time: expected a number, got {max_time!r}")
    if not (math.isfinite(max_time) and max_time > 0):
        raise ValueError(f"max_time: must be positive and finite, got {max_time}")


def start_losses(surface: BaseSurface, position: Tensor) -> Tensor:
    """The loss at every start, finite at one of them at least."""
    losses = surface.value(position)
    if not losses.isfinite().any():
        raise ValueError(
            "position: the loss is NaN or infinite at every start; start where the surface is "
            "finite, or look at its function"
        )
    return losses


def check_start(position: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
    """Positions and velocities as copies of shape (S, K)."""
    for name, tensor in (("position", position), ("velocity", velocity)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.ndim not in (1, 2):
            raise ValueError(f"{name}: expected shape (K,) or (S, K), got {tuple(tensor.shape)}")
    position = position.unsqueeze(0) if position.ndim == 1 else position
    velocity = velocity.unsqueeze(0) if velocity.ndim == 1 else velocity
    check_rows("position", position)
    check_rows("velocity", velocity)
    if position.dtype != velocity.dtype or position.device != velocity.device:
        raise TypeError(
            f"velocity: {velocity.dtype} on {velocity.device}, but the position is "
            f"{position.dtype} on {position.device}; convert one of them"
        )
    if position.shape[1] != velocity.shape[1]:
        raise ValueError(
            f"velocity: {velocity.shape[1]} parameters, but the position has {position.shape[1]}"
        )
    if len(position) == 1 and len(velocity) > 1:
        position = position.expand(len(velocity), -1)
    if len(velocity) == 1 and len(position) > 1:
        velocity = velocity.expand(len(position), -1)
    if len(position) != len(velocity):
        raise ValueError(f"velocity: {len(velocity)} rows, but {len(position)} positions")
    if len(position) == 0:
        raise ValueError("position: no rows given")
    for name, tensor in (("position", position), ("velocity", velocity)):
        if not tensor.isfinite().all():
            raise ValueError(f"{name}: contains NaN or infinite values")
    return position.detach().clone(), velocity.detach().clone()


def check_numbers(numbers: Sequence[int] | None, rows: int) -> None:
    """One number for each row, if any are given."""
    if numbers is None:
        return
    if len(numbers) != rows:
        raise ValueError(f"numbers: {len(numbers)} of them for {rows} rows; give one for each")
    for number in numbers:
        check_integer("numbers", number, lowest=0)


def check_times(
    max_time: float, save_at: Sequence[float] | Tensor | None, device: torch.device
) -> Tensor:
    """The times to land on, in float64: those of `save_at` after 0, and `max_time`."""
    end = torch.tensor([float(max_time)], dtype=torch.float64, device=device)
    if save_at is None:
        return end
    times = torch.as_tensor(save_at, dtype=torch.float64, device=device)
    if times.ndim != 1 or len(times) == 0:
        raise ValueError("save_at: expected a list of times")
    if not times.isfinite().all() or (times.diff() <= 0).any() or times[0] < 0:
        raise ValueError("save_at: times must be increasing and not negative")
    if times[-1] > max_time:
        raise ValueError(f"save_at: ends at {float(times[-1])}, after max_time {max_time}")
    times = times[times > 0]  # the start needs no landing
    return times if len(times) and times[-1] == end[0] else torch.cat([times, end])
