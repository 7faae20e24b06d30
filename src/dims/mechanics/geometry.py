"""The graph of a loss as a surface with the metric G = I + ggᵀ, where g = ∇L(θ).

A velocity v in θ lifts to (v, w) on the graph; w = gᵀv is its speed along the loss axis ("climb").
All functions take rows: velocities and gradients (S, K), scalars (S,).
"""

from __future__ import annotations

import torch
from torch import Tensor

from dims.model.shapes import RowScalars, RowVectors

__all__ = [
    "columns",
    "dot",
    "kinetic_energy",
    "kinetic_energy_of",
    "precondition",
    "project_to_tangent",
]


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner products of rows: summed in the precision of the rows, returned in float64."""
    return torch.linalg.vecdot(a, b).double()


def columns(scalars: Tensor, vectors: Tensor) -> Tensor:
    """Row scalars as a column that multiplies row vectors in their own precision."""
    return scalars.to(vectors.dtype).unsqueeze(-1)


def kinetic_energy(velocity: RowVectors, gradient: RowVectors) -> RowScalars:
    """T = ½·vᵀGv = ½(‖v‖² + (gᵀv)²) of each row, in the precision of the rows."""
    return kinetic_energy_of(velocity, torch.linalg.vecdot(gradient, velocity))


def kinetic_energy_of(velocity: RowVectors, climb: RowScalars) -> RowScalars:
    """T = ½(‖v‖² + w²) where w is known; in float64 where w is."""
    return 0.5 * (torch.linalg.vecdot(velocity, velocity) + climb.square())


def project_to_tangent(
    velocity: RowVectors,
    climb: RowScalars,
    gradient: RowVectors,
    gradient_square: RowScalars | None = None,
) -> tuple[RowVectors, RowScalars]:
    """The part of (v, w) in the tangent plane: v + μg with μ = (w − gᵀv)/(1 + ‖g‖²).

    The projection is orthogonal, so it never adds energy. `gradient_square` is ‖g‖² where the
    caller has it already.
    """
    square = dot(gradient, gradient) if gradient_square is None else gradient_square
    push = (climb - dot(gradient, velocity)) / (1 + square)
    return velocity + columns(push, gradient) * gradient, climb - push


def precondition(noise: Tensor, gradient: Tensor) -> Tensor:
    """G^(−½)·ε = ε − g·(gᵀε)/(1 + ‖g‖² + √(1 + ‖g‖²)) for rows ε (S, K), g one (K,) or rows (S, K).

    The kinetic energy ½·vᵀGv of the result is ½‖ε‖², wherever on the surface it starts.
    """
    if noise.shape[-1] != gradient.shape[-1] or gradient.ndim > noise.ndim:
        raise ValueError(
            f"gradient: shape {tuple(gradient.shape)} does not belong to noise of shape "
            f"{tuple(noise.shape)}"
        )
    # Along a steep gradient all but 1/‖g‖ of ε cancels, which float32 would not survive.
    wide, slope = noise.double(), gradient.double()
    steepness = 1 + slope.square().sum(-1, keepdim=True)
    along = (wide * slope).sum(-1, keepdim=True)
    return (wide - slope * (along / (steepness + steepness.sqrt()))).to(noise.dtype)
