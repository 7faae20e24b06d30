"""Kronecker factors of a network, computed by curvlinops."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from dims.curvature.base import Kind
from dims.curvature.kronecker import KroneckerCurvature
from dims.model.shapes import Vector
from dims.model.training_data import Inputs, call_module, input_length, map_inputs
from dims.surface.loss import LossSurface

__all__ = ["fit_kronecker"]

SUPPORTED = (nn.Linear, nn.Conv2d)
ADVICE = "use structure 'low_rank', 'diagonal' or 'full', or freeze it (requires_grad=False)"


def fit_kronecker(surface: LossSurface, theta: Vector, kind: Kind) -> KroneckerCurvature:
    """KFAC-expand of the GGN, with the exact output Hessian (no sampled labels).

    curvlinops knows three losses. For any other likelihood the outputs are multiplied by a fixed
    root R of Λ = RᵀR, point by point: the Hessian of ‖R·f‖² in f is 2Λ.
    """
    if kind is not Kind.GGN:
        raise ValueError(
            "curvature_kind: 'kronecker' approximates the GGN only; use curvature_kind='ggn'"
        )
    known = surface.likelihood.torch_loss()
    loss, factor = known or (nn.MSELoss(reduction="sum"), 0.5)
    network = _Network(surface, theta, weighted=known is None)
    layers = _layers(surface)
    _check_each_layer_is_called_once(network, layers, surface)
    operator = _import_kfac()(
        network,
        loss,
        [network.module.get_parameter(name) for name in surface.vector.names],
        list(_batches(surface, weighted=known is None)),
        fisher_type="type-2",
        check_deterministic=False,
        num_per_example_loss_terms=1,
        num_data=surface.points,
        batch_size_fn=input_length,
    )
    operator.compute_kronecker_factors()
    factors: list[tuple[Tensor, Tensor | None]] = []
    for name in surface.vector.names:
        layer, kind_of_tensor = f"module.{layers[name]}".rstrip("."), name.rpartition(".")[2]
        output = surface.likelihood_scale * factor * operator._gradient_covariances[layer]
        inputs = operator._input_covariances[layer] if kind_of_tensor == "weight" else None
        factors.append((output, inputs))
    return KroneckerCurvature(surface, factors)


class _Network(nn.Module):
    """The surface's network at θ, called with one argument, its outputs always (N, C).

    `weighted` multiplies them by roots of their Hessian, which count as constants.
    """

    def __init__(self, surface: LossSurface, theta: Vector, weighted: bool = False) -> None:
        super().__init__()
        self.weights = surface.likelihood.curvature_weights if weighted else None
        self.arrange = surface.arrange
        self.module = copy.deepcopy(surface.module)
        for name, value in surface.vector.unflatten(theta).items():
            parameter = self.module.get_parameter(name)
            parameter.data.copy_(value)
            parameter.requires_grad_()

    def forward(self, inputs: Inputs) -> Tensor:
        if self.weights is None:
            return self.arrange(call_module(self.module, inputs))
        assert isinstance(inputs, list)
        points, targets = inputs  # as `_batches` pairs them
        outputs = self.arrange(call_module(self.module, points))
        values, vectors = torch.linalg.eigh(self.weights(outputs.detach(), targets))
        roots = values.clamp(min=0).sqrt().unsqueeze(-1) * vectors.mT
        return (roots @ outputs.unsqueeze(-1)).squeeze(-1)


def _import_kfac() -> Any:
    try:
        with warnings.catch_warnings():  # its dependencies use torch.jit as they are imported
            warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
            from curvlinops import KFACLinearOperator
    except ImportError as error:
        raise ImportError(
            "curvature 'kronecker' needs curvlinops: pip install 'dims[kfac]'"
        ) from error
    return KFACLinearOperator


def _batches(surface: LossSurface, weighted: bool) -> Any:
    """Chunks within the memory budget; real targets are columns, as torch's losses take them."""
    points = max(1, int(surface.memory_budget // (2 * surface.bytes_per_point)))
    for inputs, targets in surface.data.chunks(points):
        if weighted:  # the loss is of zeros, and the network weighs its outputs itself
            zeros = surface.vector.initial.new_zeros(len(targets), surface.outputs)
            yield [inputs, targets], zeros
            continue
        column = targets.ndim == 1 and targets.is_floating_point()
        yield inputs, targets.unsqueeze(-1) if column else targets


def _layers(surface: LossSurface) -> dict[str, str]:
    """The layer of each tensor of θ, if KFAC knows it."""
    layers = {}
    for name in surface.vector.names:
        layer_name, _, tensor_name = name.rpartition(".")
        layer = surface.module.get_submodule(layer_name)
        if not isinstance(layer, SUPPORTED) or tensor_name not in ("weight", "bias"):
            kind = type(surface.given.get_submodule(layer_name)).__name__
            raise ValueError(
                f"curvature: 'kronecker' supports Linear and Conv2d layers, and {name!r} belongs "
                f"to {layer_name or 'the model'!r} ({kind}); {ADVICE}"
            )
        layers[name] = layer_name
    return layers


def _check_each_layer_is_called_once(
    network: _Network, layers: dict[str, str], surface: LossSurface
) -> None:
    """KFAC sees a layer through its calls: with shared or bypassed layers its factors are wrong."""
    calls: Counter[int] = Counter()
    users: Counter[int] = Counter()
    handles = []
    for layer in network.module.modules():
        if isinstance(layer, SUPPORTED):
            users.update(id(p) for p in layer.parameters(recurse=False))
            handles.append(
                layer.register_forward_hook(lambda module, *_: calls.update([id(module)]))
            )
    with torch.no_grad():
        call_module(network.module, map_inputs(lambda x: x[:1], surface.data.inputs))
    for handle in handles:
        handle.remove()
    for name, layer_name in layers.items():
        layer = network.module.get_submodule(layer_name)
        used = calls[id(layer)]
        shared = users[id(network.module.get_parameter(name))] > 1
        if used != 1 or shared:
            why = "shares its weights with another layer" if shared else f"is called {used} times"
            raise ValueError(
                f"curvature: 'kronecker' needs layers that are called exactly once a forward "
                f"pass, and {layer_name!r} {why}; {ADVICE}"
            )
