"""Which model draws belong to: the names, shapes and constants of a module, and a probe of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dims.errors import DrawsFileError
from dims.model.network import BatchedNetwork
from dims.model.shapes import Vector
from dims.model.training_data import map_inputs
from dims.sampling.draws.storage import tensor_bytes

__all__ = ["ModelEntry", "check_probe", "check_signature"]
__all__ += ["constant_hashes", "hash_entries", "model_entries", "probe"]

# A larger point is not probed: its size comes from a file, and a false one must not fill memory.
LARGEST_PROBE = 2**24


class ModelEntry(NamedTuple):
    """One tensor of a module."""

    role: str  # "sampled": a part of θ; "constant": a parameter that is not; "buffer"
    name: str
    dtype: str
    shape: list[int]

    def __str__(self) -> str:
        kind = "buffer" if self.role == "buffer" else "parameter"
        return f"{kind} {self.name!r} ({self.dtype}, shape {tuple(self.shape)})"


def model_entries(module: nn.Module, sampled: Sequence[str]) -> list[ModelEntry]:
    """All parameters and buffers in the module's order; a shared weight appears once."""
    chosen = set(sampled)

    def entry(role: str, name: str, tensor: Tensor) -> ModelEntry:
        return ModelEntry(role, name, str(tensor.dtype)[len("torch.") :], list(tensor.shape))

    parameters = [
        entry("sampled" if name in chosen else "constant", name, tensor)
        for name, tensor in module.named_parameters()
    ]
    return parameters + [entry("buffer", name, b) for name, b in module.named_buffers()]


def hash_entries(entries: Sequence[ModelEntry]) -> str:
    return hashlib.sha256(json.dumps([list(entry) for entry in entries]).encode()).hexdigest()


def constant_hashes(module: nn.Module, sampled: Sequence[str]) -> dict[str, str]:
    """sha256 of the values that predictions depend on beside θ: frozen parameters and buffers.

    Buffers that are not part of the state dict are left out: the module's own code makes them,
    with the rounding of the device it runs on.
    """
    chosen, kept = set(sampled), set(module.state_dict())
    constants: dict[str, Tensor] = {n: p for n, p in module.named_parameters() if n not in chosen}
    constants |= {n: b for n, b in module.named_buffers() if n in kept}
    return {n: hashlib.sha256(tensor_bytes(t)).hexdigest() for n, t in constants.items()}


def check_signature(
    saved: Sequence[ModelEntry],
    saved_constants: Mapping[str, str],
    module: nn.Module,
    sampled: Sequence[str],
) -> None:
    """Refuse a module that is not the saved one, naming the first difference."""
    given = model_entries(module, sampled)
    theirs = {entry.name: entry for entry in saved}
    ours = {entry.name: entry for entry in given}
    for name, entry in theirs.items():
        if name not in ours:
            raise DrawsFileError(f"model: it lacks {entry}, which the draws were made with")
        other = ours[name]
        if other.shape == entry.shape and other.dtype != entry.dtype:
            raise DrawsFileError(
                f"model: {other} is {entry.dtype} in the file; convert the model with "
                f"model.to(torch.{entry.dtype})"
            )
        if other != entry:
            raise DrawsFileError(f"model: {other} is another in the file: {entry}")
    for name, entry in ours.items():
        if name not in theirs:
            raise DrawsFileError(f"model: its {entry} is unknown to the file")
    if given != list(saved):
        raise DrawsFileError("model: its parameters come in another order than in the file")
    for name, digest in constant_hashes(module, sampled).items():
        if saved_constants.get(name) != digest:
            raise DrawsFileError(
                f"model: {ours[name]} is not sampled and has other values than when the draws "
                "were made; load the trained model's state dict first"
            )


def probe(network: BatchedNetwork, theta: Vector) -> Tensor | None:
    """f(θ*) on two made-up points: it tells networks apart whose tensors have equal shapes.

    None where the network refuses the points (they need not make sense to it) or they are large.
    """

    def build(text: str) -> Tensor:
        kind, numbers = text.rstrip("]").split("[")
        shape = [2, *(int(number) for number in numbers.split(",") if number)]
        size = math.prod(shape)
        if size > LARGEST_PROBE:
            raise OverflowError("too large to be probed")
        if kind != "float":
            return torch.zeros(shape, dtype=getattr(torch, kind), device=device)
        ramp = torch.linspace(-1, 1, size, dtype=torch.float64)
        return ramp.to(device, network.vector.dtype).reshape(shape)

    device = network.vector.device
    try:
        points = map_inputs(build, network.input_shapes)
        with torch.no_grad():
            return network.network(network.vector.unflatten(theta.to(device)), points)
    except Exception:
        # Whatever a user's network may raise on points that mean nothing to it.
        return None


def check_probe(network: BatchedNetwork, theta: Vector, expected: Tensor | None) -> None:
    """Refuse a network whose outputs at θ* differ by more than devices do."""
    found = None if expected is None else probe(network, theta)
    if found is None or expected is None:
        return
    same = found.shape == expected.shape and found.dtype == expected.dtype
    if same:
        expected = expected.to(found.device)
        slack = 1e-2 * float(expected.abs().nan_to_num(0.0, 0.0, 0.0).max())
        same = torch.allclose(found, expected, rtol=1e-2, atol=slack, equal_nan=True)
    if not same:
        raise DrawsFileError(
            "model: its parameters fit but its outputs at θ* are others than the saved ones; "
            "build the model with the same layers and activations"
        )
