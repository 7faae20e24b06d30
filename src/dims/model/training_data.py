"""Training data as tensors: a (X, y) pair, a Dataset or a DataLoader; X a tensor, list or dict."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from dims.model.arrays import as_arrays
from dims.model.checks_data import warn_of_random_data
from dims.prediction.showing import Shown

__all__ = ["Inputs", "TrainingData", "call_module", "check_finite", "collect"]
__all__ += ["describe_inputs", "input_length", "logits_of", "map_inputs", "module_arguments"]
__all__ += ["point_outputs", "slice_inputs", "without_labels"]

LABELS = ("labels", "label")  # how a batch that is a dict calls its targets

Inputs = Tensor | list[Any] | tuple[Any, ...] | dict[str, Any]


class TrainingData(NamedTuple):
    """Inputs and targets of all points, and what a person sees who prints them."""

    inputs: Inputs
    targets: Tensor

    def _facts(self) -> dict[str, Any]:
        return {
            "points": len(self.targets),
            "inputs": describe_inputs(self.inputs),
            "targets": describe_inputs(self.targets),
        }

    # A named tuple has no other base.
    def __repr__(self) -> str:
        return Shown.__repr__(cast("Shown", self))

    def _repr_html_(self) -> str:
        return Shown._repr_html_(cast("Shown", self))

    def chunks(self, size: int) -> Iterator[TrainingData]:
        """The points in order, at most `size` at a time, in parts as equal as can be: a compiled
        gradient is compiled for every size anew."""
        parts = math.ceil(len(self.targets) / size)
        size = math.ceil(len(self.targets) / parts)
        for start in range(0, len(self.targets), size):
            yield self.part(slice(start, start + size))

    def part(self, points: slice | list[int] | Tensor) -> TrainingData:
        """Some of the points."""
        return TrainingData(slice_inputs(self.inputs, points), self.targets[points])

    def with_rows(self, more: TrainingData) -> TrainingData:
        """These points, and others after them."""
        inputs = _cat([self.inputs, more.inputs])
        return TrainingData(inputs, torch.cat([self.targets, more.targets]))


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
    elif isinstance(data, Mapping):
        inputs, targets = _pair(data)
    elif isinstance(data, (tuple, list)) and len(data) == 2:
        inputs, targets = data
    else:
        raise TypeError(
            f"data: expected a pair (inputs, targets), a dict with 'labels', a Dataset or a "
            f"DataLoader, got {type(data).__name__}"
        )

    def convert(tensor: Any) -> Tensor:
        tensor = torch.as_tensor(tensor)
        if tensor.device != device and tensor.device.type != "cpu":
            where = f"on {tensor.device}, the model on {device}"
            raise ValueError(f"data: {where}; move one to the other")
        # A copy: the caller may go on to change what is theirs. Contiguous, because torch.vmap does
        # not take images as `permute(0, 3, 1, 2)` leaves them.
        kind = dtype if tensor.is_floating_point() else tensor.dtype
        copied = tensor.detach().to(device, kind, copy=not isinstance(data, TrainingData))
        return copied.contiguous()

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
    if isinstance(inputs, Mapping):
        return {key: map_inputs(function, value) for key, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(map_inputs(function, value) for value in inputs)
    return function(inputs)


def slice_inputs(inputs: Any, part: int | slice | list[int] | Tensor) -> Any:
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


def call_module(module: nn.Module, inputs: Inputs) -> Any:
    """Call a module on inputs as `module_arguments` says."""
    arguments, keywords = module_arguments(module, inputs)
    return module(*arguments, **keywords)


def module_arguments(module: nn.Module, inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of `forward`.

    A list or tuple goes in as positional arguments. A dict goes in as keyword arguments if
    `forward` has arguments of these names, else as the one argument, as a tensor does.
    """
    if isinstance(inputs, (list, tuple)):
        return tuple(inputs), {}
    if isinstance(inputs, dict):
        try:
            inspect.signature(module.forward).bind(**inputs)
            return (), inputs
        except TypeError:
            pass
    return (inputs,), {}


def logits_of(outputs: Any) -> Tensor:
    """The tensor that a module returned, or the logits of an object or dict that has them."""
    if isinstance(outputs, Tensor):
        return outputs
    found = outputs.get("logits") if isinstance(outputs, Mapping) else None
    found = getattr(outputs, "logits", found)
    if not isinstance(found, Tensor):
        raise TypeError(
            f"its output is a {type(outputs).__name__} without logits; return one tensor, or an "
            "object or dict with `logits`"
        )
    return found


def point_outputs(outputs: Any, takes_positions: bool) -> Tensor:
    """What a module returned as outputs (N, C): its logits, positions side by side."""
    outputs = logits_of(outputs)
    if outputs.ndim > 2 and takes_positions:
        return outputs.flatten(1)
    return outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs


def without_labels(inputs: Mapping[str, Any], kept: Mapping[str, Any] | None = None) -> Any:
    """A batch less its labels, unless they are among the names to be kept."""
    return {name: x for name, x in inputs.items() if name in (kept or ()) or name not in LABELS}


def _points(data: Dataset) -> Iterator[Any]:
    if isinstance(data, IterableDataset):
        return iter(data)
    return (data[i] for i in range(len(data)))  # type: ignore[arg-type]


def _join(batches: list[Any]) -> tuple[Inputs, Tensor]:
    if not batches:
        raise ValueError("data: it is empty; give at least one point")
    pairs = [_pair(batch) for batch in batches]
    targets = [torch.as_tensor(pair[1]) for pair in pairs]
    return _cat([pair[0] for pair in pairs]), _cat(targets)


def _pair(batch: Any) -> tuple[Any, Any]:
    """Inputs and targets of a batch: a pair, or a dict that holds the targets as labels."""
    if isinstance(batch, Mapping):
        named = [name for name in LABELS if name in batch]
        if not named:
            raise TypeError(
                f"data: a dict must hold the targets as 'labels', got {', '.join(map(str, batch))}"
            )
        return without_labels(batch), batch[named[0]]
    if not (isinstance(batch, (tuple, list)) and len(batch) == 2):
        raise TypeError("data: each element must be a pair (inputs, targets) or a dict with labels")
    return batch[0], batch[1]


def _cat(parts: list[Any]) -> Any:
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: _cat([part[key] for part in parts]) for key in first}
    if isinstance(first, (list, tuple)):
        return [_cat([part[i] for part in parts]) for i in range(len(first))]
    shapes = {tuple(part.shape[1:]) for part in parts}
    if len(shapes) > 1:
        raise ValueError(
            f"data: batches have points of different shapes, {sorted(shapes)[:3]}; pad all of them "
            'to one length, as tokenizers do with padding="max_length"'
        )
    return torch.cat(parts)
