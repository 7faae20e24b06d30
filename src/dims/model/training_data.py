"""Training data as tensors: a (X, y) pair, a Dataset or a DataLoader; X a tensor, list or dict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from dims.model.arrays import as_arrays
from dims.model.checks_data import warn_of_random_data

__all__ = ["Inputs", "TrainingData", "call_module", "check_finite", "collect"]
__all__ += ["describe_inputs", "input_length", "map_inputs", "slice_inputs"]

Inputs = Tensor | list[Any] | tuple[Any, ...] | dict[str, Any]


class TrainingData(NamedTuple):
    inputs: Inputs
    targets: Tensor

    def chunks(self, size: int) -> Iterator[tuple[Inputs, Tensor]]:
        """The points in order, at most `size` at a time, in parts as equal as can be: a compiled
        gradient is compiled for every size anew."""
        parts = math.ceil(len(self.targets) / size)
        size = math.ceil(len(self.targets) / parts)
        for start in range(0, len(self.targets), size):
            part = slice(start, start + size)
            yield slice_inputs(self.inputs, part), self.targets[part]


def collect(data: Any, device: torch.device, dtype: torch.dtype) -> TrainingData:
    """Gather all points into tensors on the model's device; floats take the model's precision."""
    warn_of_random_data(data)
    if isinstance(data, TrainingData):
        inputs, targets = data
    elif isinstance(data, DataLoader):
        if data.drop_last and len(data) * (data.batch_size or 1) < len(data.dataset):  # type: ignore[arg-type]
            raise ValueError("data: the DataLoader drops its last points; set drop_last=False")
        with torch.random.fork_rng(devices=[]):  # a loader draws a seed even if it does not shuffle
            inputs, targets = _join(list(data))
    elif isinstance(data, Dataset):
        inputs, targets = _join([default_collate([point]) for point in _points(data)])
    elif isinstance(data, (tuple, list)) and len(data) == 2:
        inputs, targets = data
    else:
        raise TypeError(
            f"data: expected a pair (inputs, targets), a Dataset or a DataLoader, got "
            f"{type(data).__name__}"
        )

    def convert(tensor: Any) -> Tensor:
        tensor = torch.as_tensor(tensor)
        if tensor.device != device and tensor.device.type != "cpu":
            where = f"on {tensor.device}, the model on {device}"
            raise ValueError(f"data: {where}; move one to the other")
        # A copy: the caller may go on to change what is theirs.
        kind = dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to(device, kind, copy=not isinstance(data, TrainingData))

    inputs = map_inputs(convert, as_arrays("inputs", inputs))
    targets = convert(as_arrays("targets", targets))
    points = input_length(inputs)
    if targets.ndim == 0 or points == 0 or len(targets) == 0:
        raise ValueError("data: it is empty; give at least one point")
    if points != len(targets):
        listed = isinstance(inputs, (list, tuple)) and len(inputs) == len(targets)
        hint = "; a list of tensors is several inputs of one network, so stack points into one"
        raise ValueError(f"data: {points} inputs but {len(targets)} targets{hint * listed}")
    check_finite(inputs)
    return TrainingData(inputs, targets)


def check_finite(inputs: Inputs) -> None:
    """Refuse NaN and infinite features, which would turn every loss into NaN."""

    def check(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError("inputs: contain NaN or infinite values; impute or drop those points")
        return tensor

    map_inputs(check, inputs)


def map_inputs(function: Callable[[Any], Any], inputs: Any) -> Any:
    """Apply a function to every tensor of a tensor, list, tuple or dict of inputs."""
    if isinstance(inputs, dict):
        return {key: map_inputs(function, value) for key, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(map_inputs(function, value) for value in inputs)
    return function(inputs)


def slice_inputs(inputs: Any, part: slice | list[int] | Tensor) -> Any:
    """The given points only."""
    return map_inputs(lambda x: x[part], inputs)


def describe_inputs(inputs: Any) -> Any:
    """The kind and shape of one point as plain text, in the structure of the inputs.

    A batch of grey images is "float[1,28,28]", a batch of token sequences "int64[16]".
    """

    if isinstance(inputs, dict):
        return {str(key): describe_inputs(value) for key, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return [describe_inputs(value) for value in inputs]
    real = inputs.is_floating_point()
    kind = "float" if real else str(inputs.dtype).removeprefix("torch.")
    return f"{kind}[{','.join(map(str, inputs.shape[1:]))}]"


def input_length(inputs: Any) -> int:
    """The number of points, which all parts of the inputs must share."""
    lengths: set[int] = set()

    def note(tensor: Any) -> Tensor:
        if tensor.ndim == 0:
            raise ValueError("inputs: a tensor without a points dimension; its shape is ()")
        lengths.add(len(tensor))
        return tensor

    map_inputs(note, inputs)
    if len(lengths) != 1:
        raise ValueError(f"inputs: their parts have different lengths {sorted(lengths)}")
    return lengths.pop()


def call_module(module: Callable[..., Tensor], inputs: Inputs) -> Tensor:
    """A list or tuple goes in as positional arguments, a tensor or dict as the one argument."""
    return module(*inputs) if isinstance(inputs, (list, tuple)) else module(inputs)


def _points(data: Dataset) -> Iterator[Any]:
    if isinstance(data, IterableDataset):
        return iter(data)
    return (data[i] for i in range(len(data)))  # type: ignore[arg-type]


def _join(batches: list[Any]) -> tuple[Inputs, Tensor]:
    if not batches:
        raise ValueError("data: it is empty; give at least one point")
    first = batches[0]
    if not (isinstance(first, (tuple, list)) and len(first) == 2):
        raise TypeError("data: each element must be a pair (inputs, targets)")
    return _cat([b[0] for b in batches]), torch.cat([torch.as_tensor(b[1]) for b in batches])


def _cat(parts: list[Any]) -> Any:
    first = parts[0]
    if isinstance(first, dict):
        return {key: _cat([part[key] for part in parts]) for key in first}
    if isinstance(first, (list, tuple)):
        return [_cat([part[i] for part in parts]) for i in range(len(first))]
    return torch.cat(parts)
