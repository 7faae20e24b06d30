"""Products of the likelihood's Hessian or GGN with vectors, and Jacobians, in chunks of data.

    Hessian: ∇²(s·Σᵢ −log p(yᵢ|fᵢ))·u         GGN: s·Σᵢ Jᵢᵀ Λᵢ Jᵢ·u

with s = `likelihood_scale`, Jᵢ = ∂f(xᵢ)/∂θ and Λᵢ = ∂²(−log p)/∂f². Everything is reverse mode
(J·u is the derivative of wᵀJ·u in w), which every layer supports that can be differentiated twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.func import jacrev, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from dims.curvature.base import Kind
from dims.model.shapes import RowVectors, Vector
from dims.model.training_data import Inputs, input_length, map_inputs, slice_inputs
from dims.surface.loss import LossSurface

__all__ = [
    "LikelihoodProducts",
    "jacobian_chunks",
    "jacobian_of_points",
    "network_graph",
    "pull_back",
]

# A graph that can be differentiated again holds about this many times a gradient's activations.
GRAPH_COPIES = 4

Product = Callable[[Tensor], Tensor]


class LikelihoodProducts:
    """u ↦ H·u at one θ, for rows u (S, K).

    At most `rows` vectors are multiplied at a time. If all points fit into the surface's memory
    budget, the graph of the network is built once and serves every later product.
    """

    def __init__(self, surface: LossSurface, theta: Vector, kind: Kind, rows: int = 1) -> None:
        self._surface = surface
        self._theta = theta
        self._rows = rows
        self._linearise = _linearised_gradient if kind is Kind.HESSIAN else _linearised_network
        bytes_per_point = (GRAPH_COPIES + rows) * surface.bytes_per_point
        self._points = max(1, int(surface.memory_budget // bytes_per_point))
        self._kept: list[Product] | None = None
        if self._points >= surface.points:
            self._kept = list(self._products())

    @property
    def keeps_graph(self) -> bool:
        """Does one graph serve all products, so that few vectors at a time cost no more?"""
        return self._kept is not None

    def __call__(self, vectors: RowVectors) -> RowVectors:
        total = torch.zeros_like(vectors)
        for product in self._products() if self._kept is None else self._kept:
            for start in range(0, len(vectors), self._rows):
                part = slice(start, start + self._rows)
                total[part] += product(vectors[part])
        return total

    def _products(self) -> Iterator[Product]:
        for inputs, targets in self._surface.work.chunks(self._points):
            yield self._linearise(self._surface, self._theta, inputs, targets)


def _linearised_gradient(
    surface: LossSurface, theta: Vector, inputs: Inputs, targets: Tensor
) -> Product:
    leaf, outputs = network_graph(surface, theta, inputs)
    with torch.enable_grad():
        loss = surface.likelihood_scale * surface.likelihood.negative_log(outputs, targets).sum()
        (gradient,) = torch.autograd.grad(loss, leaf, create_graph=True)
    return lambda vectors: pull_back(gradient, leaf, vectors)


def _linearised_network(
    surface: LossSurface, theta: Vector, inputs: Inputs, targets: Tensor
) -> Product:
    leaf, outputs = network_graph(surface, theta, inputs)
    weights = surface.likelihood_scale * surface.likelihood.curvature_weights(
        outputs.detach(), targets
    )
    with torch.enable_grad():
        dual = torch.zeros_like(outputs, requires_grad=True)
        (pulled,) = torch.autograd.grad(outputs, leaf, dual, create_graph=True)

    def product(vectors: Tensor) -> Tensor:
        pushed = pull_back(pulled, dual, vectors)
        weighted = (weights @ pushed.unsqueeze(-1)).squeeze(-1)
        return pull_back(outputs, leaf, weighted)

    return product


def network_graph(surface: LossSurface, theta: Vector, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """θ as a leaf of autograd, and the outputs (n, C) that are made of it."""
    # The fused attention kernels have no second derivative and no batches, hence the plain one.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        leaf = theta.detach().clone().requires_grad_()
        return leaf, surface.network(surface.vector.unflatten(leaf), inputs, surface.head)


def pull_back(outputs: Tensor, inputs: Tensor, cotangents: Tensor) -> Tensor:
    """(∂outputs/∂inputs)ᵀ·w for each row w."""

    def pull(rows: Tensor, batched: bool) -> Tensor:
        (result,) = torch.autograd.grad(
            outputs, inputs, rows, retain_graph=True, is_grads_batched=batched, allow_unused=True
        )
        if result is None:  # constant: a loss that is linear in θ
            return rows.new_zeros(*rows.shape[: int(batched)], *inputs.shape)
        return result

    if len(cotangents) > 1:
        try:
            return pull(cotangents, True)
        except RuntimeError:  # some second derivatives (GroupNorm's) cannot be batched
            pass
    return torch.stack([pull(row, False) for row in cotangents])


def jacobian_of_points(surface: LossSurface) -> Callable[..., tuple[Tensor, Tensor]]:
    """(θ, inputs of n points) ↦ the Jacobian of each point's outputs (n, C, K), and the outputs."""

    def output(theta: Tensor, point: Inputs) -> tuple[Tensor, Tensor]:
        inputs = map_inputs(lambda x: x.unsqueeze(0), point)
        tensors = surface.vector.unflatten(theta)
        outputs = surface.network(tensors, inputs, surface.head).squeeze(0)
        return outputs, outputs

    batched = vmap(jacrev(output, has_aux=True), in_dims=(None, 0))

    def each(theta: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
        return surface.batching.attempt(
            "points",
            lambda: batched(theta, inputs),
            lambda: _jacobian_one_by_one(surface, theta, inputs),
        )

    return each


def _jacobian_one_by_one(
    surface: LossSurface, theta: Tensor, inputs: Inputs
) -> tuple[Tensor, Tensor]:
    """The same by plain reverse mode, point by point and output by output."""
    jacobians, outputs = [], []
    for point in range(input_length(inputs)):
        leaf, found = network_graph(surface, theta, slice_inputs(inputs, slice(point, point + 1)))
        rows = [
            torch.autograd.grad(part, leaf, retain_graph=True, materialize_grads=True)[0]
            for part in found[0]
        ]
        jacobians.append(torch.stack(rows))
        outputs.append(found[0].detach())
    return torch.stack(jacobians), torch.stack(outputs)


def jacobian_chunks(surface: LossSurface, theta: Vector) -> Iterator[tuple[Tensor, Tensor]]:
    """Jᵢ = ∂f(xᵢ)/∂θ (n, C, K) and s·Λᵢ (n, C, C) of n points at a time."""

    jacobian = jacobian_of_points(surface)
    # J, the pieces it is made of and Λ·J live side by side, in float64 at the end.
    held = surface.outputs * (3 * 8 * surface.size + surface.bytes_per_point)
    step = max(1, int(surface.memory_budget // held))
    for inputs, targets in surface.work.chunks(step):
        with sdpa_kernel(SDPBackend.MATH):
            jacobians, outputs = jacobian(theta.detach(), inputs)
        weights = surface.likelihood.curvature_weights(outputs, targets)
        yield jacobians, surface.likelihood_scale * weights
