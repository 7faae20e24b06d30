"""`Draws`: S parameter vectors, how each came about, and the network they belong to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from dims.mechanics.status import Status
from dims.model.network import BatchedNetwork
from dims.model.shapes import RowIntegers, RowScalars, RowVectors, Vector
from dims.model.training_data import Inputs
from dims.prediction.predictive import Predictive
from dims.sampling.draws.summary import summarise

__all__ = ["LINEARISED_METHODS", "ROW_NUMBERS", "Draws"]

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


def _not_computed() -> Tensor:
    return torch.empty(0, dtype=torch.float64)


def _no_evaluations() -> Tensor:
    return torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Draws:
    """S draws of θ around the trained θ* of one network.

    What is left out is not known: NaN, no status, no evaluations. Loss, gradient norm, smallest
    Hessian eigenvalue and displacement (by settling) are those of the delivered draw; energies,
    arc length and evaluations those of its trajectory.
    """

    parameters: RowVectors
    method: str
    surface: BatchedNetwork  # a LossSurface, or the network alone after loading without data
    map_parameters: Vector
    status: Sequence[Status | None] = ()
    loss: RowScalars = field(default_factory=_not_computed)
    gradient_norm: RowScalars = field(default_factory=_not_computed)
    smallest_eigenvalue: RowScalars = field(default_factory=_not_computed)
    displacement: RowScalars = field(default_factory=_not_computed)
    kinetic_energy: RowScalars = field(default_factory=_not_computed)
    energy_violation: RowScalars = field(default_factory=_not_computed)
    energy_balance: RowScalars = field(default_factory=_not_computed)
    arc_length: RowScalars = field(default_factory=_not_computed)
    evaluations: RowIntegers = field(default_factory=_no_evaluations)
    verdict: Sequence[str] | None = None
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or not self.method:
            raise ValueError(f"method: expected a name such as 'dims', got {self.method!r}")
        self._check_parameters()
        rows, device = len(self.parameters), self.parameters.device
        filled: dict[str, Any] = {
            "parameters": self.parameters.detach(),
            "map_parameters": self.map_parameters.detach(),
            "settings": _check_settings(self.settings),
        }
        for name in ROW_NUMBERS:
            known = _check_rows(name, getattr(self, name), rows)
            unknown = torch.full((rows,), torch.nan, dtype=torch.float64)
            filled[name] = (unknown if known is None else known).to(device, torch.float64)
        counts = _check_rows("evaluations", self.evaluations, rows)
        counts = torch.zeros(rows) if counts is None else counts
        filled["evaluations"] = counts.to(device, torch.int64)
        for name in ("status", "verdict"):
            entries = getattr(self, name)
            if entries and len(entries) != rows:
                raise ValueError(f"{name}: {len(entries)} entries for {rows} draws")
        filled["status"] = list(self.status) or [None] * rows
        filled["verdict"] = None if self.verdict is None else list(self.verdict)
        for name, value in filled.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.parameters)

    def __repr__(self) -> str:
        return f"Draws({len(self)} by {self.method!r}, {self.parameters.shape[1]} parameters)"

    @property
    def linearised(self) -> bool:
        """Whether the draws are read by the network linearised at θ*."""
        return self.method in LINEARISED_METHODS

    def select(self, rows: Any) -> Draws:
        """The draws of a boolean mask, of a list of indices, or of a slice, in that order."""
        index = _row_indices(rows, len(self))
        chosen: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name in ("parameters", "evaluations", *ROW_NUMBERS):
                chosen[entry.name] = value[index.to(value.device)]
            elif entry.name in ("status", "verdict") and value is not None:
                chosen[entry.name] = [value[i] for i in index.tolist()]
        return replace(self, **chosen)

    def predict(self, inputs: Inputs) -> Predictive:
        """The predictive distribution at new inputs, given like the training inputs."""
        if len(self) == 0:
            raise ValueError("draws: there are none to predict with; select or sample at least one")
        thetas = self.parameters.to(self.surface.vector.device)
        if self.linearised:
            centre = self.map_parameters.to(thetas.device)
            outputs = self.surface.predict_linearised(centre, thetas, inputs)
        else:
            outputs = self.surface.predict(thetas, inputs)
        broken = [i for i, draw in enumerate(outputs) if not draw.isfinite().all()]
        if broken:
            raise ValueError(
                f"draws: the outputs of {broken[:10]} are NaN or infinite there; leave those draws "
                "out with draws.select, or look at the inputs for outliers"
            )
        return self.surface.likelihood.predictive(outputs)

    def summary(self) -> str:
        """A report in plain text: how the draws ended, where they are, and what to do."""
        return summarise(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a safetensors file, whole or not at all; `dims.load` reads it."""
        from dims.sampling.draws.file import save  # it builds Draws, so it comes after them

        save(self, path, overwrite=overwrite)

    def to_datatree(self) -> Any:
        """The draws as an ArviZ DataTree: one chain, `posterior` and `sample_stats`."""
        from dims.sampling.draws.datatree import to_datatree  # arviz-base is an extra

        return to_datatree(self)

    def _check_parameters(self) -> None:
        vector = self.surface.vector
        for name, ndim in (("parameters", 2), ("map_parameters", 1)):
            tensor = getattr(self, name)
            if not isinstance(tensor, Tensor) or tensor.dtype != vector.dtype:
                kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
                raise TypeError(f"{name}: expected a tensor of {vector.dtype}, got {kind}")
            if tensor.ndim != ndim or tensor.shape[-1] != vector.size:
                expected = f"(draws, {vector.size})" if ndim == 2 else f"({vector.size},)"
                raise ValueError(f"{name}: expected shape {expected}, got {tuple(tensor.shape)}")


def _check_rows(name: str, values: Tensor, rows: int) -> Tensor | None:
    """The values, or None where they were left out."""
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
            raise TypeError(f"settings: {key!r} is no text; keys must be names")
        try:
            checked[key] = json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"settings: {key!r} is a {type(value).__name__}, which a file cannot hold; "
                "give text or numbers"
            ) from error
    return checked


def _row_indices(rows: Any, total: int) -> Tensor:
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
