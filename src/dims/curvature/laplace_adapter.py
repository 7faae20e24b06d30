"""A fitted laplace-torch posterior as a curvature."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dims.curvature.base import Curvature, working_dtype
from dims.curvature.diagonal import DiagonalCurvature
from dims.curvature.full import FullCurvature
from dims.curvature.kronecker import KroneckerCurvature
from dims.model.shapes import Vector
from dims.surface.loss import LossSurface

__all__ = ["from_laplace"]


def from_laplace(la: Any, surface: LossSurface, theta: Vector | None = None) -> Curvature:
    """The curvature inside a fitted laplace-torch object (full, diag or kron), for this surface.

    laplace-torch keeps Σᵢ JᵢᵀΛᵢJᵢ for σ = 1; the surface's noise and likelihood scale multiply it
    here. Prior precision and noise are the surface's own: pass `la.prior_precision` and
    `la.sigma_noise` on to it for the same posterior.

    Args:
        la: The fitted laplace-torch object.
        surface: The loss surface of the same model and data.
        theta: θ* of both, (K,); the surface's initial one when None.

    Returns:
        A full, diagonal or Kronecker curvature.

    Raises:
        TypeError: `la` is of another kind.
        ValueError: `la` is not fitted, or differs from the surface in model, data or task.
    """
    _check(la, surface, surface.initial if theta is None else theta)
    factor, noise_std = surface.likelihood_scale, surface.likelihood.noise_std
    if noise_std is not None:
        factor /= noise_std**2
    blocks = getattr(la, "H_facs", None)
    if blocks is not None:
        return KroneckerCurvature(surface, [_factors(block, factor) for block in blocks.kfacs])
    values = la.H.detach()
    values = factor * values.to(working_dtype(len(values), values.dtype, values.device))
    # Its Hessian backends are not semidefinite, and it does not say which backend it was.
    if values.ndim == 1:
        return DiagonalCurvature(surface, values, semidefinite=False)
    return FullCurvature(surface, 0.5 * (values + values.T), semidefinite=False)


def _factors(block: Any, factor: float) -> tuple[Tensor, Tensor | None]:
    left, *rest = (part if part.ndim == 2 else torch.diag(part) for part in block)
    return factor * left, rest[0] if rest else None


def _check(la: Any, surface: LossSurface, theta: Vector) -> None:
    kinds = "a full, diag or kron posterior of laplace-torch"
    curvature = getattr(la, "H", None)
    if not hasattr(la, "mean") or not hasattr(la, "n_data"):
        raise TypeError(f"curvature: expected {kinds}, got {type(la).__name__}")
    if not la.n_data or curvature is None:
        raise ValueError("curvature: the laplace-torch object is not fitted; call la.fit first")
    if getattr(la, "H_facs", None) is None and not isinstance(curvature, Tensor):
        raise TypeError(f"curvature: expected {kinds}, got {type(la).__name__}")
    if la.n_params != surface.size:
        raise ValueError(
            f"curvature: the laplace-torch object has {la.n_params} parameters, the surface "
            f"{surface.size}; select the same weights in both"
        )
    if la.n_data != surface.points:
        raise ValueError(
            f"curvature: the laplace-torch object was fitted to {la.n_data} points, the surface "
            f"has {surface.points}; give both the same data"
        )
    task, own = str(getattr(la.likelihood, "value", la.likelihood)), surface.likelihood
    if task != own.task:
        raise ValueError(
            f"curvature: the laplace-torch object is a {task} posterior, the surface's likelihood "
            f"is for {own.task}"
        )
    if task == "regression" and own.noise_std is None:
        raise ValueError(
            f"curvature: regression of laplace-torch has one noise, {own.name} of the surface has "
            "not; leave the argument out"
        )
    if not torch.allclose(la.mean.detach().to(theta), theta, rtol=1e-5, atol=1e-7):
        raise ValueError(
            "curvature: the laplace-torch object was fitted at other parameters than θ; fit it "
            "again on this model"
        )
    if float(la.temperature) != 1.0 or bool((torch.as_tensor(la.prior_mean) != 0).any()):
        raise ValueError(
            "curvature: a laplace-torch object with a temperature or a prior mean has no "
            "counterpart; use effective_points, and a prior mean of zero"
        )
    if getattr(la, "damping", False):
        raise ValueError("curvature: fit the kron posterior with damping=False")
