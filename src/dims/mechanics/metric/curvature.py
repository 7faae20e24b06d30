"""Products with the curvature of the loss at each row, by what is cheapest for the surface.

    a plain surface:   ∇²L·u
    a network:         s·Σᵢ wᵢ·JᵢᵀΛᵢJᵢ·u + δ∘u      over all points, or some that stand for all

The Gauss–Newton form of a network has no negative directions. Where a row's Jacobian is small it is
formed once, and then many products cost little; otherwise each product passes through the network.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from dims.curvature.products import jacobian_of_points, network_graph, pull_back
from dims.mechanics.metric.subspace import Product
from dims.model.network import jacobian_products
from dims.model.shapes import RowVectors
from dims.model.training_data import Inputs, slice_inputs
from dims.surface.base import BaseSurface
from dims.surface.loss import LossSurface

__all__ = ["Part", "choose_points", "row_products"]

JACOBIAN_BYTES = 2**26  # of one row's Jacobian; larger ones are never formed
GRAPH_COPIES = 4  # memory of a product through the network, in units of a gradient's


class Part(NamedTuple):
    """Data points that stand for all, and how many each of them stands for; both (m, n)."""

    points: Tensor
    weights: Tensor


def choose_points(surface: LossSurface, thetas: RowVectors, count: int, noise: Tensor) -> Part:
    """Points of each row without replacement, the likelier the larger their curvature Λ.

    The keys log tr Λᵢ + Gumbel noise order the points. Given the first key κ that is left out,
    point i is chosen with probability 1 − exp(−tr Λᵢ·e^(−κ)); its weight is the inverse, so the
    weighted sum over the chosen points has the sum over all as its expectation.

    Args:
        surface: The loss.
        thetas: θ (m, K).
        count: n, below the number of points.
        noise: Standard Gumbel noise (m, N).

    Returns:
        The chosen points and their weights.
    """
    outputs = surface.outputs_on_data(thetas)
    rows, total, width = outputs.shape
    targets = surface.data.targets
    repeated = targets.expand(rows, *targets.shape).flatten(0, 1)
    hessians = surface.likelihood.curvature_weights(outputs.reshape(-1, width), repeated)
    traces = hessians.diagonal(dim1=-2, dim2=-1).sum(-1).view(rows, total).double()
    logs = traces.clamp(min=1e-300).log().nan_to_num(0.0)
    keys, order = (logs + noise).topk(count + 1, dim=-1)
    points = order[:, :-1]
    chance = -torch.expm1(-(logs.gather(-1, points) - keys[:, -1:]).exp())
    return Part(points, 1 / chance)


def row_products(surface: BaseSurface, thetas: RowVectors, part: Part | None) -> Product:
    """u (m, q, K) ↦ P·u with P at each of the m rows.

    Args:
        surface: The loss.
        thetas: θ (m, K).
        part: The data points that each row uses; None means all.

    Returns:
        The function that multiplies.
    """
    if not isinstance(surface, LossSurface):
        return _hessian(surface, thetas)
    count = surface.points if part is None else part.points.shape[1]
    row_bytes = count * surface.outputs * surface.size * thetas.element_size()
    form = _jacobian if row_bytes <= JACOBIAN_BYTES else _network
    return form(surface, thetas, part)


def _hessian(surface: BaseSurface, thetas: RowVectors) -> Product:
    def product(vectors: Tensor) -> Tensor:
        rows, count, size = vectors.shape
        many = thetas.unsqueeze(1).expand(rows, count, size).reshape(-1, size)
        _, products = surface.grad_and_hvp(many, vectors.reshape(-1, size))
        return products.view(rows, count, size)

    return product


def _jacobian(surface: LossSurface, thetas: RowVectors, part: Part | None) -> Product:
    """Every row's Jacobian of the outputs, formed once; as many rows at a time as memory holds."""
    points = surface.points if part is None else part.points.shape[1]
    row_bytes = 3 * points * surface.outputs * surface.size * thetas.element_size()
    at_once = max(1, surface.memory_budget // row_bytes)
    if len(thetas) <= at_once:
        return _jacobian_of_rows(surface, thetas, part)

    def product(vectors: Tensor) -> Tensor:
        images = []
        for start in range(0, len(thetas), at_once):
            rows = slice(start, start + at_once)
            some = None if part is None else Part(part.points[rows], part.weights[rows])
            images.append(_jacobian_of_rows(surface, thetas[rows], some)(vectors[rows]))
        return torch.cat(images)

    return product


def _jacobian_of_rows(surface: LossSurface, thetas: RowVectors, part: Part | None) -> Product:
    inputs = surface.work.inputs
    if part is not None:
        inputs = slice_inputs(inputs, part.points)
    each = jacobian_of_points(surface)
    each_row = vmap(each, in_dims=(0, None if part is None else 0))

    def one_by_one() -> tuple[Tensor, Tensor]:
        own = [inputs if part is None else slice_inputs(inputs, row) for row in range(len(thetas))]
        found = [each(theta, points) for theta, points in zip(thetas, own, strict=True)]
        return torch.stack([pair[0] for pair in found]), torch.stack([pair[1] for pair in found])

    with sdpa_kernel(SDPBackend.MATH):
        # Not "draws": a branch on the data stops the batch of points, but not that of the weights.
        jacobians, outputs = surface.batching.attempt(
            "Jacobians of draws", lambda: each_row(thetas, inputs), one_by_one
        )
    rows, count, width, size = jacobians.shape
    hessians = _weighted_hessians(surface, outputs.reshape(-1, width), part)
    hessians = hessians.view(rows, count, width, width)
    flat = jacobians.reshape(rows, count * width, size)

    def product(vectors: Tensor) -> Tensor:
        pushed = torch.bmm(flat, vectors.mT).view(rows, count, width, -1)
        weighted = (hessians @ pushed).view(rows, count * width, -1)
        return torch.bmm(weighted.mT, flat) + _prior(surface, vectors)

    return product


def _network(surface: LossSurface, thetas: RowVectors, part: Part | None) -> Product:
    """Through the network, one row after the other and some vectors at a time."""
    points = surface.points if part is None else part.points.shape[1]
    vector_bytes = GRAPH_COPIES * points * surface.bytes_per_point
    at_once = max(1, surface.memory_budget // vector_bytes)

    def one_row(theta: Tensor, block: Tensor, some: Part | None) -> Tensor:
        inputs = surface.work.inputs
        if some is not None:
            inputs = slice_inputs(inputs, some.points)
        if surface.one_by_one:
            return _one_by_one(surface, theta, inputs, block, some)

        def network(theta: Tensor) -> Tensor:
            return surface.network(surface.vector.unflatten(theta), inputs, surface.head)

        with sdpa_kernel(SDPBackend.MATH):
            outputs, pull = vjp(network, theta)[:2]
            hessians = _weighted_hessians(surface, outputs, some)
            images = []
            for vectors in block.split(at_once):
                pushed = jacobian_products(network, theta, vectors)
                images.append(vmap(pull)((hessians @ pushed.unsqueeze(-1)).squeeze(-1))[0])
        return torch.cat(images)

    def product(vectors: Tensor) -> Tensor:
        images = [
            one_row(theta, block, None if part is None else Part(*(p[row] for p in part)))
            for row, (theta, block) in enumerate(zip(thetas, vectors, strict=True))
        ]
        return torch.stack(images) + _prior(surface, vectors)

    return product


def _one_by_one(
    surface: LossSurface, theta: Tensor, inputs: Inputs, block: Tensor, some: Part | None
) -> Tensor:
    """Products with one vector after the other, in reverse mode, on a graph that is built once.

    Tangents of weights are weights: batched, their convolutions are grouped ones, too. Alone, they
    are thousands of short calls, which plain autograd makes several times faster than `jvp`.
    """
    leaf, outputs = network_graph(surface, theta, inputs)
    hessians = _weighted_hessians(surface, outputs.detach(), some)
    with torch.enable_grad():
        dual = torch.zeros_like(outputs, requires_grad=True)
        (pulled,) = torch.autograd.grad(outputs, leaf, dual, create_graph=True)

    def product(vector: Tensor) -> Tensor:
        pushed = pull_back(pulled, dual, vector.unsqueeze(0))
        return pull_back(outputs, leaf, (hessians @ pushed.unsqueeze(-1)).squeeze(-1))[0]

    return torch.stack([product(vector) for vector in block])


def _weighted_hessians(surface: LossSurface, outputs: Tensor, part: Part | None) -> Tensor:
    """s·wᵢ·Λᵢ of points in one row of outputs after the other, (n, C, C)."""
    targets = surface.data.targets
    if part is not None:
        targets = targets[part.points].flatten(0, part.points.ndim - 1)
    elif len(outputs) > len(targets):
        targets = targets.expand(len(outputs) // len(targets), *targets.shape).flatten(0, 1)
    weights = surface.likelihood.curvature_weights(outputs, targets)
    hessians = surface.likelihood_scale * weights
    if part is None:
        return hessians
    return hessians * part.weights.to(hessians.dtype).reshape(-1, 1, 1)


def _prior(surface: LossSurface, vectors: Tensor) -> Tensor:
    return surface.loss_scale * surface.prior_precision * vectors
