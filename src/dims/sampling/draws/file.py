"""Draws in a file: safetensors, written whole or not at all, and checked in full when read."""

from __future__ import annotations

import copy
import math
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dims.errors import DrawsFileError
from dims.mechanics.status import Status
from dims.model.network import BatchedNetwork
from dims.prediction.weights import check_weights
from dims.sampling.draws.container import Draws
from dims.sampling.draws.fields import ROW_NUMBERS, SAVED_TENSORS, tensor_kinds
from dims.sampling.draws.header import Header, parse_header, write_header
from dims.sampling.draws.mixture_file import check_mixture, mixture_tensors, read_mixture
from dims.sampling.draws.signature import check_probe, check_signature, probe
from dims.sampling.draws.storage import read, write
from dims.sampling.files import refuse_existing
from dims.surface.loss import LossSurface

__all__ = ["SavedNetwork", "check_tensors", "load", "save"]

NO_STATUS = -1
# Tensors that earlier versions did not write, and what they were equal to.
NEWER = {"metric_length": "arc_length", "gradient_equivalents": "evaluations"}


class SavedNetwork(BatchedNetwork):
    """The network of saved draws without their training data: it predicts but has no loss."""

    def __init__(
        self, model: nn.Module, header: Header, prior_precision: Tensor, memory_budget: int | None
    ) -> None:
        super().__init__(model, memory_budget=memory_budget)
        self.outputs = header.outputs
        self.input_shapes = header.input_shapes
        self.likelihood = header.likelihood
        self._takes_positions = self.likelihood.takes_positions
        self.prior_precision = prior_precision.to(self.vector.device)
        self.points = header.points
        self.effective_points = header.effective_points
        self.loss_scale = header.loss_scale
        self.loss_at_map = header.loss_at_map


def save(draws: Draws, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write draws to a safetensors file; an existing one is kept unless `overwrite` is set."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: there is no folder {target.parent}; create it first")
    if not overwrite:
        refuse_existing(target)
    header = write_header(draws, _loss_at_map(draws.surface, draws.map_parameters))
    write(target, _tensors(draws), header, overwrite=overwrite)


def load(
    path: str | os.PathLike[str],
    model: nn.Module,
    data: Any = None,
    *,
    memory_budget: int | None = None,
) -> Draws:
    """Read draws that `Draws.save` wrote.

    Args:
        path: The file.
        model: The network they were made with. Its weights need not be trained: θ* is in the
            file. It is copied, not modified.
        data: The training data. With it the draws get their loss surface back; without, they
            predict.
        memory_budget: Bytes that the network may use at once; None takes the default.

    Returns:
        The draws as they were saved.

    Raises:
        DrawsFileError: The file is damaged, is not a file of draws, or belongs to another model or
            other data.

    Example:
        >>> draws = dims.load("run.safetensors", model)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    try:
        text, tensors = read(Path(path))
        header = parse_header(text)
        copied = copy.deepcopy(model)
        check_signature(header.entries, header.constants, copied, header.sampled)
        check_tensors(tensors, header)
        theta = tensors["map_parameters"]
        _set_parameters(copied, header.sampled, theta)
        surface = _build_surface(copied, data, header, tensors, memory_budget)
        check_probe(surface, theta, tensors.get("probe"))
    except DrawsFileError as error:
        raise DrawsFileError(f"{path}: {error}") from error.__cause__
    device = surface.vector.device
    codes = tensors["status"].tolist()
    return Draws(
        parameters=tensors["parameters"].to(device),
        map_parameters=theta.to(device),
        surface=surface,
        method=header.method,
        status=[None if code == NO_STATUS else Status.from_code(code) for code in codes],
        evaluations=tensors["evaluations"],
        verdict=header.verdict,
        seed=header.seed,
        settings=header.settings,
        weights=tensors.get("weights"),
        mixture=read_mixture(tensors, header.mixture),
        **{name: tensors[name] for name in ROW_NUMBERS},
        **{name: tensors[name] for name in ("times", *SAVED_TENSORS) if "times" in tensors},
    )


def _set_parameters(module: nn.Module, sampled: list[str], theta: Tensor) -> None:
    """θ* into the module, of which exactly the named tensors are sampled."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name in sampled)
    sizes = [module.get_parameter(name).numel() for name in sampled]
    for name, part in zip(sampled, theta.split(sizes), strict=True):
        parameter = module.get_parameter(name)
        parameter.data.copy_(part.view(parameter.shape))


def _build_surface(
    module: nn.Module,
    data: Any,
    header: Header,
    tensors: dict[str, Tensor],
    memory_budget: int | None,
) -> BatchedNetwork:
    prior = tensors["prior_precision"]
    if data is None:
        return SavedNetwork(module, header, prior, memory_budget)
    surface = LossSurface(
        module,
        data,
        header.likelihood,
        prior,
        effective_points=header.effective_points,
        loss_scale=header.loss_scale,
        memory_budget=memory_budget,
    )
    _check_data(surface, header)
    return surface


def _tensors(draws: Draws) -> dict[str, Tensor]:
    codes = [NO_STATUS if status is None else status.code for status in draws.status]
    small = {name: getattr(draws, name) for name in ("parameters", *ROW_NUMBERS, "evaluations")}
    small["map_parameters"] = draws.map_parameters
    small["prior_precision"] = draws.surface.prior_precision
    small["status"] = torch.tensor(codes, dtype=torch.int64)
    if len(draws.times):
        small |= {name: getattr(draws, name) for name in ("times", *SAVED_TENSORS)}
    if draws.weights is not None:
        small["weights"] = draws.weights
    if draws.mixture is not None:
        small |= mixture_tensors(draws.mixture)
    outputs = probe(draws.surface, draws.map_parameters)
    if outputs is not None:
        small["probe"] = outputs
    return {name: tensor.cpu() for name, tensor in small.items()}


def _loss_at_map(surface: BatchedNetwork, theta: Tensor) -> float | None:
    if isinstance(surface, LossSurface):
        return surface.value(theta.to(surface.vector.device).unsqueeze(0)).item()
    return surface.loss_at_map if isinstance(surface, SavedNetwork) else None


def _check_data(surface: LossSurface, header: Header) -> None:
    if surface.points != header.points:
        raise DrawsFileError(
            f"data: {surface.points} points, but the draws were made with {header.points}; "
            "give the training data, or none at all"
        )
    if header.loss_at_map is None:
        return
    found = surface.value(surface.initial.unsqueeze(0)).item()
    if not abs(found - header.loss_at_map) <= 1e-2 * max(1.0, abs(header.loss_at_map)):
        raise DrawsFileError(
            f"data: the loss at θ* is {found:.6g} on it and {header.loss_at_map:.6g} in the file; "
            "give the training data, scaled as in training, or none at all"
        )


def check_tensors(tensors: dict[str, Tensor], header: Header) -> None:
    """Every tensor of the file in the shape, precision and range it must have.

    Those of saved times, and weights, are in files of draws that have some. Files of versions that
    knew the euclidean metric alone lack two tensors, which follow from others and are added.
    """
    for name, former in NEWER.items():
        if former in tensors:
            tensors.setdefault(name, tensors[former].double())
    sampled = [entry for entry in header.entries if entry.role == "sampled"]
    size = sum(math.prod(entry.shape) for entry in sampled)
    dtype = getattr(torch, sampled[0].dtype)
    rows = len(tensors["parameters"]) if tensors.get("parameters", torch.empty(())).ndim else 0
    times = tensors.get("times")
    expected = tensor_kinds(dtype, rows, size, 0 if times is None else times.numel())
    for name, (kind, shape) in {**expected, "status": (torch.int64, (rows,))}.items():
        tensor = tensors.get(name)
        if tensor is None and times is None and name in ("times", *SAVED_TENSORS):
            continue
        if tensor is None:
            raise DrawsFileError(f"the file has no tensor {name!r}")
        if tensor.dtype != kind or tensor.shape != shape:
            raise DrawsFileError(
                f"tensor {name!r} is {tensor.dtype} of shape {tuple(tensor.shape)}, "
                f"expected {kind} of shape {shape}"
            )
    if header.verdict is not None and len(header.verdict) != rows:
        raise DrawsFileError(f"the header has {len(header.verdict)} verdicts for {rows} draws")
    codes = {NO_STATUS, *(status.code for status in Status)}
    if not set(tensors["status"].tolist()) <= codes:
        raise DrawsFileError("tensor 'status' has codes that this version of dims does not know")
    weights = tensors.get("weights")
    if weights is not None:
        try:
            check_weights(weights, rows)
        except ValueError as error:
            raise DrawsFileError(f"tensor 'weights' cannot be used: {error}") from error
    check_mixture(tensors, header.mixture, tensors["map_parameters"], len(tensors.get("times", ())))
    if not tensors["map_parameters"].isfinite().all():
        raise DrawsFileError("tensor 'map_parameters' has NaN or infinite values")
    prior = tensors.get("prior_precision", torch.empty(0, 0))
    shape_fits = prior.ndim == 0 or prior.shape == (size,)
    if prior.dtype != dtype or not shape_fits or not (prior.isfinite() & (prior >= 0)).all():
        raise DrawsFileError("tensor 'prior_precision' is missing, misshapen or negative")
