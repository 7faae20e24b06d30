"""Networks of one architecture, trained from different first weights, as points of one surface."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from dims.model.network import BatchedNetwork
from dims.model.shapes import Vector
from dims.model.training_data import slice_inputs
from dims.surface.loss import LossSurface

__all__ = ["PROBED_POINTS", "flatten_member"]

PROBED_POINTS = 8


def flatten_member(member: nn.Module, number: int, surface: LossSurface) -> Vector:
    """θ of a member, after a proof that the network of the first member with θ is that member."""
    network = BatchedNetwork(member)
    _refuse_other_architecture(network, number, surface)
    _refuse_other_constants(network, number, surface)
    theta = network.initial
    if not torch.isfinite(theta).all():
        raise ValueError(f"models: the parameters of member {number} contain NaN or infinities")
    few = slice_inputs(surface.data.inputs, slice(0, PROBED_POINTS))
    with torch.no_grad():
        own = network.network(network.vector.unflatten(theta), few)
        shared = surface.network(surface.vector.unflatten(theta), few)
    # The same operations on the same numbers: what differs by more than rounding is another net.
    close = own.shape == shared.shape and torch.allclose(
        own, shared, rtol=1e-3, atol=1e-4 * float(shared.abs().max()), equal_nan=True
    )
    if not close:
        raise ValueError(
            f"models: member {number} has the parameters of member 0 but computes something else "
            "(another activation, another setting of a layer); give members of one architecture"
        )
    return theta


def _refuse_other_architecture(network: BatchedNetwork, number: int, surface: LossSurface) -> None:
    ours, theirs = (
        {
            **{name: (*p.shape, p.dtype, p.device) for name, p in net.module.named_parameters()},
            "the trainable parameters": net.vector.names,
        }
        for net in (surface, network)
    )
    for name in chain(ours, theirs):
        if ours.get(name) != theirs.get(name):
            raise ValueError(
                f"models: members 0 and {number} differ in {name} ({_shown(ours.get(name))} and "
                f"{_shown(theirs.get(name))}); give members of one architecture"
            )


def _shown(entry: tuple[Any, ...] | None) -> str:
    return "none" if entry is None else ", ".join(str(part) for part in entry)


def _refuse_other_constants(network: BatchedNetwork, number: int, surface: LossSurface) -> None:
    """Draws share one network, so all that is not in θ must be equal."""
    for name in sorted({*_constants(surface)} | {*_constants(network)}):
        ours, theirs = _constants(surface).get(name), _constants(network).get(name)
        if ours is None or theirs is None or not torch.equal(ours, theirs):
            raise ValueError(
                f"models: members 0 and {number} differ in {name!r}, a buffer or frozen parameter, "
                "which draws share. For BatchNorm train all members with the same frozen running "
                "statistics, or use GroupNorm or LayerNorm"
            )


def _constants(network: BatchedNetwork) -> dict[str, Tensor]:
    tensors = chain(network.module.named_parameters(), network.module.named_buffers())
    return {
        name: tensor
        for name, tensor in tensors
        # BatchNorm counts its batches, but in eval mode nothing reads the number.
        if name not in network.vector.names and not name.endswith("num_batches_tracked")
    }
