"""The fields of `Draws`: which there are, and what each must be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dims.model.parameters import ParameterVector

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = [
    "LINEARISED_METHODS",
    "ROW_NUMBERS",
    "ROW_TENSORS",
    "SAVED_TENSORS",
    "check_parameters",
    "checked_fields",
    "row_indices",
]

# Methods whose draws are points of the tangent space at θ*, read by the linearised network.
LINEARISED_METHODS = ("linla",)

# The diagnostics with one float64 number a draw.
ROW_NUMBERS = (
    "loss",
    "gradient_norm",
    "smallest_eigenvalue",
    "displacement",
    "kinetic_energy",
    "energy_violation",
    "energy_balance",
    "arc_length",
)
SAVED_TENSORS = ("saved", "saved_loss", "saved_gradient_norm", "saved_kinetic_energy")
# All tensors whose first dimension is that of the draws.
ROW_TENSORS = ("parameters", "evaluations", *ROW_NUMBERS, *SAVED_TENSORS)


def checked_fields(draws: Draws) -> dict[str, Any]:
    """The fields in their precision and on one device; those left out are filled with NaN."""
    if not isinstance(draws.method, str) or not draws.method:
        raise ValueError(f"method: expected a name such as 'dims', got {draws.method!r}")
    check_parameters("parameters", draws.parameters, 2, draws.surface.vector)
    check_parameters("map_parameters", draws.map_parameters, 1, draws.surface.vector)
    rows, device = len(draws.parameters), draws.parameters.device
    filled: dict[str, Any] = {
        "parameters": draws.parameters.detach(),
        "map_parameters": draws.map_parameters.detach(),
        "settings": _check_settings(draws.settings),
        **_checked_saved(draws),
    }
    for name in ROW_NUMBERS:
        known = _check_rows(name, getattr(draws, name), rows)
        unknown = torch.full((rows,), torch.nan, dtype=torch.float64)
        filled[name] = (unknown if known is None else known).to(device, torch.float64)
    counts = _check_rows("evaluations", draws.evaluations, rows)
    counts = torch.zeros(rows) if counts is None else counts
    filled["evaluations"] = counts.to(device, torch.int64)
    for name in ("status", "verdict"):
        entries = getattr(draws, name)
        if entries and len(entries) != rows:
            raise ValueError(f"{name}: {len(entries)} entries for {rows} draws")
    filled["status"] = list(draws.status) or [None] * rows
    filled["verdict"] = None if draws.verdict is None else list(draws.verdict)
    return filled


def _checked_saved(draws: Draws) -> dict[str, Tensor]:
    """What was saved at each time, (draws, times, ...); nothing where it was left out."""
    if draws.times.ndim != 1:
        raise ValueError(f"times: expected shape (times,), got {tuple(draws.times.shape)}")
    (rows, size), count = draws.parameters.shape, len(draws.times)
    device = draws.parameters.device
    checked = {"times": draws.times.detach().to(device, torch.float64)}
    for name in SAVED_TENSORS:
        shape = (rows, count, size) if name == "saved" else (rows, count)
        dtype = draws.parameters.dtype if name == "saved" else torch.float64
        values = getattr(draws, name).detach()
        if values.ndim == 1 and len(values) == 0 and count == 0:
            values = values.new_empty(shape)
        if values.shape != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {tuple(values.shape)}")
        checked[name] = values.to(device, dtype)
    return checked


def check_parameters(name: str, tensor: Any, ndim: int, vector: ParameterVector) -> None:
    """Parameter vectors of the network, in its precision."""
    if not isinstance(tensor, Tensor) or tensor.dtype != vector.dtype:
        kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise TypeError(f"{name}: expected a tensor of {vector.dtype}, got {kind}")
    if tensor.ndim != ndim or tensor.shape[-1] != vector.size:
        expected = f"(draws, {vector.size})" if ndim == 2 else f"({vector.size},)"
        raise ValueError(f"{name}: expected shape {expected}, got {tuple(tensor.shape)}")


def _check_rows(name: str, values: Tensor, rows: int) -> Tensor | None:
    """One number for each draw, or None where they were left out."""
    if values.ndim == 1 and len(values) == 0:
        return None
    if values.shape != (rows,):
        raise ValueError(f"{name}: expected shape ({rows},), got {tuple(values.shape)}")
    return values.detach()


def _check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that a file can hold: text keys, values of text, numbers or lists of them."""
    checked = {}
    for key, value in settings.items():
        if not isinstance(key, str):
            raise TypeError(f"settings: {key!r} is not text; keys must be names")
        try:
            checked[key] = json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"settings: {key!r} is a {type(value).__name__}, which a file cannot hold; "
                "give text or numbers"
            ) from error
    return checked


def row_indices(rows: Any, total: int) -> Tensor:
    """The indices that a mask, a list or a slice selects."""
    if isinstance(rows, slice):
        return torch.arange(total)[rows]
    index = torch.as_tensor(rows).detach().cpu()
    if index.dtype == torch.bool:
        if index.shape != (total,):
            raise ValueError(f"rows: a mask of shape {tuple(index.shape)} for {total} draws")
        return index.nonzero().squeeze(-1)
    index = index.long() if index.numel() == 0 else index
    if index.is_floating_point() or index.is_complex() or index.ndim != 1:
        raise TypeError("rows: expected a boolean mask, a list of indices or a slice")
    if ((index < -total) | (index >= total)).any():
        raise IndexError(f"rows: {index.tolist()} with {total} draws, counted from 0")
    return index
