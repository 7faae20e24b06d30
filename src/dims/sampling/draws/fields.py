"""The fields of `Draws`: which there are, and what each must be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dims.model.parameters import ParameterVector
from dims.prediction.weights import check_weights

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["LINEARISED_METHODS", "ROW_LISTS", "ROW_NUMBERS", "ROW_TENSORS", "SAVED_TENSORS"]
__all__ += ["check_parameters", "checked_fields", "joined_weights", "row_indices"]
__all__ += ["selected_weights", "tensor_kinds"]

# Methods whose draws are points of the tangent space at θ*, read by the linearised network.
LINEARISED_METHODS = ("linla",)

# The diagnostics with one float64 number a draw, and what a summary calls them.
ROW_NUMBERS = {
    "loss": "loss",
    "gradient_norm": "gradient norm",
    "smallest_eigenvalue": "smallest eigenvalue",
    "displacement": "displacement by settling",
    "kinetic_energy": "kinetic energy left",
    "energy_violation": "energy violation",
    "energy_balance": "energy balance",
    "arc_length": "arc length",
    "metric_length": "length, moving metric",
    "gradient_equivalents": "gradient equivalents",
}
SAVED_TENSORS = ("saved", "saved_loss", "saved_gradient_norm", "saved_kinetic_energy")
# All tensors whose first dimension is that of the draws.
ROW_TENSORS = ("parameters", "evaluations", *ROW_NUMBERS, *SAVED_TENSORS)
ROW_LISTS = ("status", "verdict")


def tensor_kinds(
    dtype: torch.dtype, rows: int, size: int, times: int
) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """Precision and shape of every tensor of `rows` draws of `size` parameters."""
    return {
        "parameters": (dtype, (rows, size)),
        "map_parameters": (dtype, (size,)),
        "evaluations": (torch.int64, (rows,)),
        **dict.fromkeys(ROW_NUMBERS, (torch.float64, (rows,))),
        "times": (torch.float64, (times,)),
        "saved": (dtype, (rows, times, size)),
        **dict.fromkeys(SAVED_TENSORS[1:], (torch.float64, (rows, times))),
    }


def checked_fields(draws: Draws) -> dict[str, Any]:
    """The fields in their precision and on one device; those left out are filled with NaN."""
    if not isinstance(draws.method, str) or not draws.method:
        raise ValueError(f"method: expected a name such as 'dims', got {draws.method!r}")
    check_parameters("parameters", draws.parameters, 2, draws.surface.vector)
    check_parameters("map_parameters", draws.map_parameters, 1, draws.surface.vector)
    if draws.times.ndim != 1:
        raise ValueError(f"times: expected shape (times,), got {tuple(draws.times.shape)}")
    (rows, size), times = draws.parameters.shape, len(draws.times)
    filled: dict[str, Any] = {"settings": _check_settings(draws.settings)}
    for name, (kind, shape) in tensor_kinds(draws.parameters.dtype, rows, size, times).items():
        values = getattr(draws, name).detach()
        left_out = values.ndim == 1 and len(values) == 0
        if left_out and (name not in SAVED_TENSORS or times == 0):
            values = torch.full(shape, 0 if name == "evaluations" else torch.nan, dtype=kind)
        if values.shape != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {tuple(values.shape)}")
        # θ* may lie elsewhere.
        device = values.device if name == "map_parameters" else draws.parameters.device
        filled[name] = values.to(device, kind)
    if draws.weights is not None:
        filled["weights"] = check_weights(draws.weights, rows).to(draws.parameters.device)
    if draws.mixture is not None:
        filled["mixture"] = draws.mixture.checked(draws)
    for name in ROW_LISTS:
        entries = getattr(draws, name)
        if entries and len(entries) != rows:
            raise ValueError(f"{name}: {len(entries)} entries for {rows} draws")
    filled["status"] = list(draws.status) or [None] * rows
    filled["verdict"] = None if draws.verdict is None else list(draws.verdict)
    return filled


def check_parameters(name: str, tensor: Any, ndim: int, vector: ParameterVector) -> None:
    """Parameter vectors of the network, in its precision."""
    if not isinstance(tensor, Tensor) or tensor.dtype != vector.dtype:
        kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise TypeError(f"{name}: expected a tensor of {vector.dtype}, got {kind}")
    if tensor.ndim != ndim or tensor.shape[-1] != vector.size:
        expected = f"(draws, {vector.size})" if ndim == 2 else f"({vector.size},)"
        raise ValueError(f"{name}: expected shape {expected}, got {tuple(tensor.shape)}")


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


def selected_weights(weights: Tensor | None, index: Tensor) -> Tensor | None:
    """The weights of chosen draws with the sum 1; None where there are none, or all are 0."""
    if weights is None or not weights[index].any():
        return None
    return weights[index] / weights[index].sum()


def joined_weights(chunks: Sequence[Draws]) -> Tensor | None:
    """The weights of all chunks together, where each chunk counts by its number of draws."""
    if all(chunk.weights is None for chunk in chunks):
        return None
    parts = [
        torch.ones(len(chunk), dtype=torch.float64, device=chunk.parameters.device)
        if chunk.weights is None
        else len(chunk) * chunk.weights
        for chunk in chunks
    ]
    joined = torch.cat(parts)
    return joined / joined.sum()
