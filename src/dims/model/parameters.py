"""A module's parameters as one flat vector θ, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from dims.model.shapes import Vector, check_integer
from dims.prediction.showing import Shown

__all__ = ["ParameterVector", "last_blocks"]

Selection = Callable[[str], bool] | Iterable[str] | None


class ParameterVector(Shown):
    """Which tensors of a module form θ, in which order, and how to go between the two.

    Frozen parameters (`requires_grad=False`) stay constants. `select` narrows θ further: names,
    prefixes ("head" takes "head.weight" and "head.bias"), patterns ("layers.*.bias"), or a function
    of the name. A weight shared by several layers appears once.
    """

    def __init__(self, module: nn.Module, select: Selection = None) -> None:
        chosen = _select(module, select)
        dtypes = {parameter.dtype for parameter in chosen.values()}
        devices = {parameter.device for parameter in chosen.values()}
        if len(dtypes) > 1 or len(devices) > 1:
            raise ValueError(
                f"model: its parameters have several dtypes or devices ({dtypes}, {devices}); "
                "convert it with model.to(dtype=..., device=...) first"
            )
        self.names = tuple(chosen)
        self.shapes = tuple(parameter.shape for parameter in chosen.values())
        self.sizes = tuple(math.prod(shape) for shape in self.shapes)
        self.size = sum(self.sizes)
        self.dtype = dtypes.pop()
        self.device = devices.pop()
        if not self.dtype.is_floating_point:
            raise TypeError(f"model: parameters of type {self.dtype}; dims needs a real float type")
        self.initial = self.flatten({name: p.detach() for name, p in chosen.items()})

    def _facts(self) -> dict[str, object]:
        return {"parameters": self.size, "tensors": len(self.names), "dtype": self.dtype}

    def flatten(self, tensors: Mapping[str, Tensor]) -> Vector:
        """Lay the named tensors end to end."""
        return torch.cat([tensors[name].reshape(-1) for name in self.names])

    def unflatten(self, theta: Tensor) -> dict[str, Tensor]:
        """Cut θ (its last dimension) into the named tensors; views, no copies."""
        pieces = theta.split(self.sizes, dim=-1)
        return {
            name: piece.reshape(piece.shape[:-1] + shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def slices(self) -> dict[str, slice]:
        """Where each named tensor lies in θ."""
        ends = torch.tensor(self.sizes).cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        return {n: slice(a, b) for n, a, b in zip(self.names, starts, ends, strict=True)}


def _select(module: nn.Module, select: Selection) -> dict[str, nn.Parameter]:
    trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not trainable:
        raise ValueError(
            "model: it has no trainable parameter; set requires_grad=True on those to sample"
        )
    if select is None:
        return trainable
    if callable(select):
        chosen = {name: p for name, p in trainable.items() if select(name)}
    else:
        wanted = [select] if isinstance(select, str) else list(select)
        for text in wanted:
            if not any(_matches(name, text) for name in trainable):
                raise ValueError(
                    f"parameters: {text!r} names no trainable parameter; "
                    f"there are {', '.join(trainable)}"
                )
        chosen = {n: p for n, p in trainable.items() if any(_matches(n, t) for t in wanted)}
    if not chosen:
        raise ValueError(f"parameters: the selection is empty; there are {', '.join(trainable)}")
    return chosen


def _matches(name: str, text: str) -> bool:
    """Whether a parameter is named by its name, a prefix of it, or a pattern."""
    return f"{name}.".startswith(f"{text}.") or fnmatchcase(name, text)


def last_blocks(model: nn.Module, count: int) -> list[str]:
    """The names of a network's last blocks that can be trained, for `dims.fit(parameters=...)`.

    A block is a child of the model; `Sequential` and `ModuleList` are looked into, so that the
    blocks of a residual network or the layers of a transformer count one by one. They count in the
    order in which the model lists them.

    Args:
        model: The network.
        count: How many blocks, counted from the end.

    Returns:
        Their names, in order.

    Raises:
        ValueError: There are fewer.

    Example:
        >>> blocks = dims.last_blocks(model, 2)
        >>> posterior = dims.fit(model, (x, y), "classification", parameters=blocks)
    """
    check_integer("count", count)
    blocks = [name for name, block in _blocks(model) if _trainable(block)]
    if count > len(blocks):
        raise ValueError(
            f"count: the model has {len(blocks)} trainable blocks ({', '.join(blocks)}), not "
            f"{count}"
        )
    return blocks[-count:]


def _blocks(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, child in model.named_children():
        if isinstance(child, (nn.Sequential, nn.ModuleList)):
            yield from _blocks(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def _trainable(block: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in block.parameters())
