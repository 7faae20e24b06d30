"""Frozen features: what no sampled parameter enters is computed once, and the motion starts there.

A network of which only a part is sampled is f_θ(x) = head_θ(φ(x)) with features φ that do not
depend on θ. Torch's tracer gives the graph of the forward pass; nodes that depend on θ are the
head, and values that cross from the others to them are the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from dims.model.training_data import (
    TrainingData,
    input_length,
    logits_of,
    module_arguments,
    slice_inputs,
)

__all__ = ["Cached", "cache_features"]

POINTS_AT_ONCE = 1000  # while features are computed
PROBES = (3, 2)  # numbers of points that tell an axis of points from others


class Cached(NamedTuple):
    """Features of all training points, and the network from them to the outputs."""

    data: TrainingData
    head: nn.Module


def cache_features(
    module: nn.Module, sampled: Sequence[str], data: TrainingData, most_bytes: int
) -> Cached:
    """Compute the features of all points.

    Args:
        module: The network.
        sampled: The names of the parameters that move.
        data: The training data.
        most_bytes: The most that features may take.

    Returns:
        Features and head. Where nothing is frozen before the sampled part, where torch cannot
        trace the forward pass, or where features are too large: the data and the whole network.
    """
    whole = Cached(data, module)
    moving = {id(module.get_parameter(name)) for name in sampled}
    if all(id(parameter) in moving for parameter in module.parameters()):
        return whole
    split = _split(module, moving, data.inputs)
    if split is None or not _agrees(module, split, data.inputs):
        return whole
    total = input_length(data.inputs)
    few = _features(split[0], module, slice_inputs(data.inputs, slice(0, 1)))
    if total * sum(part.numel() * part.element_size() for part in few) > most_bytes:
        return whole
    parts = [
        _features(split[0], module, slice_inputs(data.inputs, slice(start, start + POINTS_AT_ONCE)))
        for start in range(0, total, POINTS_AT_ONCE)
    ]
    joined = tuple(torch.cat(column) for column in zip(*parts, strict=True))
    return Cached(TrainingData(joined, data.targets), split[1])


def _features(first: fx.GraphModule, module: nn.Module, inputs: Any) -> tuple[Tensor, ...]:
    arguments, keywords = module_arguments(module, inputs)
    with torch.no_grad():
        return first(*arguments, **keywords)


def _agrees(module: nn.Module, split: tuple[fx.GraphModule, fx.GraphModule], inputs: Any) -> bool:
    """Whether the two parts give what the whole gives."""
    few = slice_inputs(inputs, slice(0, PROBES[0]))
    arguments, keywords = module_arguments(module, few)
    with torch.no_grad():
        whole = logits_of(module(*arguments, **keywords))
        parts = logits_of(split[1](*_features(split[0], module, few)))
    return torch.allclose(whole, parts, rtol=1e-5, atol=1e-6)


class _Tracer(fx.Tracer):
    """Looks inside modules that are sampled in part; all others stay whole."""

    def __init__(self, moving: set[int]) -> None:
        super().__init__()
        self.moving = moving

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        flags = {id(parameter) in self.moving for parameter in m.parameters()}
        return flags != {True, False}

    def create_arg(self, a: Any) -> Any:
        # The output of a module may be an object that has the logits among others.
        logits = None if isinstance(a, fx.Proxy) else getattr(a, "logits", None)
        return super().create_arg(logits if isinstance(logits, fx.Proxy) else a)


def _split(
    module: nn.Module, moving: set[int], inputs: Any
) -> tuple[fx.GraphModule, fx.GraphModule] | None:
    """The graph from inputs to features, and the one from features to outputs."""
    try:
        graph = _Tracer(moving).trace(module)
        few = [_Lengths(module, graph).of(slice_inputs(inputs, slice(0, n))) for n in PROBES]
    except Exception:  # whatever a forward pass may do that is not a graph
        return None
    inside = _dependent(module, graph, moving)
    frozen = [node for node in graph.nodes if node not in inside]
    # A feature has the points as its first axis. Sizes, constants and buffers are computed again.
    has_points = {node for node in frozen if tuple(each.get(node) for each in few) == PROBES}
    waiting, crossing = list(inside), set()
    while waiting:
        for part in waiting.pop().all_input_nodes:
            if part in has_points:
                crossing.add(part)
            elif part not in inside:
                inside.add(part)
                waiting.append(part)
    if any(node.op == "placeholder" or _in_place(node, crossing) for node in inside):
        return None
    features = [node for node in graph.nodes if node in crossing]
    if all(node.op == "placeholder" for node in features):
        return None
    first, head = fx.Graph(), fx.Graph()
    before: dict[fx.Node, fx.Node] = {}
    for node in frozen:
        before[node] = first.node_copy(node, lambda part: before[part])
    first.output(tuple(before[node] for node in features))
    after = {node: head.placeholder(f"feature_{i}") for i, node in enumerate(features)}
    for node in graph.nodes:
        if node in inside:
            after[node] = head.node_copy(node, lambda part: after[part])
    prefix = fx.GraphModule(module, first)
    prefix.graph.eliminate_dead_code()
    prefix.recompile()
    return prefix, fx.GraphModule(module, head)


def _in_place(node: fx.Node, features: set[fx.Node]) -> bool:
    """Whether a node writes into a feature, as `x.add_(y)` does."""
    name = str(node.target)
    writes = node.op == "call_method" and name.endswith("_") and not name.endswith("__")
    return writes and node.args[0] in features


def _dependent(module: nn.Module, graph: fx.Graph, moving: set[int]) -> set[fx.Node]:
    """The nodes that sampled parameters enter, and the output."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        own = False
        if node.op == "call_module":
            owner = module.get_submodule(str(node.target))
            own = any(id(parameter) in moving for parameter in owner.parameters())
        elif node.op == "get_attr":
            owner_name, _, name = str(node.target).rpartition(".")
            own = id(getattr(module.get_submodule(owner_name), name)) in moving
        if own or node.op == "output" or any(part in found for part in node.all_input_nodes):
            found.add(node)
    return found


class _Lengths(fx.Interpreter):
    """Runs a graph and notes the length of every tensor's first axis."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        super().__init__(fx.GraphModule(module, graph))
        self.whole, self.found = module, dict[str, int]()
        self.nodes = {node.name: node for node in graph.nodes}

    def of(self, inputs: Any) -> dict[fx.Node, int]:
        arguments, keywords = module_arguments(self.whole, inputs)
        given = list(arguments)
        for node in self.nodes.values():
            if node.op == "placeholder" and node.target in keywords:
                given.append(keywords[str(node.target)])
        with torch.no_grad():
            self.run(*given)
        return {self.nodes[name]: length for name, length in self.found.items()}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor) and result.ndim:
            self.found[n.name] = len(result)
        return result
