"""Names of structures and kinds, turned into curvatures here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dims.curvature.base import Curvature, Kind
from dims.curvature.diagonal import fit_diagonal
from dims.curvature.full import fit_full
from dims.curvature.kfac import fit_kronecker
from dims.curvature.low_rank import fit_low_rank
from dims.model.shapes import Vector
from dims.surface.loss import LossSurface

__all__ = ["STRUCTURES", "fit_curvature"]

Fit = Callable[[LossSurface, Tensor, Kind, int, int], Curvature]

STRUCTURES: dict[str, Fit] = {
    "full": lambda surface, theta, kind, rank, seed: fit_full(surface, theta, kind),
    "diagonal": lambda surface, theta, kind, rank, seed: fit_diagonal(surface, theta, kind),
    "kronecker": lambda surface, theta, kind, rank, seed: fit_kronecker(surface, theta, kind),
    "low_rank": fit_low_rank,
}


def fit_curvature(
    surface: LossSurface,
    theta: Vector,
    structure: str = "full",
    kind: str = "ggn",
    rank: int = 100,
    seed: int = 0,
) -> Curvature:
    """The curvature H of the likelihood part of the surface at θ.

    GGN: H = s·Σᵢ JᵢᵀΛᵢJᵢ; Hessian: H = ∇²(s·Σᵢ −log p(yᵢ|f_θ(xᵢ))); s is the likelihood's scale.

    Args:
        surface: The loss surface.
        theta: θ, (K,), usually a minimum.
        structure: "full", "diagonal", "kronecker" or "low_rank".
        kind: "ggn" or "hessian"; "kronecker" knows the GGN only.
        rank: Number of leading eigenpairs of "low_rank".
        seed: Of the start vectors of "low_rank".

    Returns:
        H; `precision(prior_precision)` adds a prior and gives a Gaussian to sample from.

    Raises:
        TypeError: θ is not a tensor.
        ValueError: A name is unknown, or the structure does not suit the model.

    Example:
        >>> curvature = fit_curvature(surface, surface.initial, "low_rank", rank=50)
        >>> curvature.precision(prior_precision=1.0).sample(10)              # (10, K)
    """
    if structure not in STRUCTURES:
        raise ValueError(
            f"curvature: {structure!r} is unknown; give one of {', '.join(STRUCTURES)}"
        )
    kinds = [member.value for member in Kind]
    if kind not in kinds:
        raise ValueError(f"curvature_kind: {kind!r} is unknown; give one of {', '.join(kinds)}")
    return STRUCTURES[structure](surface, _check_theta(theta, surface), Kind(kind), rank, seed)


def _check_theta(theta: Vector, surface: LossSurface) -> Vector:
    if not isinstance(theta, Tensor):
        raise TypeError(f"theta: expected a tensor, got {type(theta).__name__}")
    if theta.shape != (surface.size,):
        raise ValueError(f"theta: expected shape ({surface.size},), got {tuple(theta.shape)}")
    if not torch.isfinite(theta).all():
        raise ValueError("theta: contains NaN or infinite values")
    return theta.detach().to(dtype=surface.vector.dtype, device=surface.vector.device)
