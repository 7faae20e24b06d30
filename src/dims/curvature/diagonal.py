"""Diagonal curvature: each parameter on its own.

GGN: hₖ = s·Σᵢ (JᵢᵀΛᵢJᵢ)ₖₖ, exact, C backward passes a point.
Hessian: hₖ = ∂²(s·Σᵢ −log p)/∂θₖ², exact, K Hessian-vector products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dims.curvature.base import (
    Curvature,
    Kind,
    Precision,
    no_prior_error,
    repaired_ratios,
    wide_dtype,
)
from dims.curvature.products import LikelihoodProducts, jacobian_chunks
from dims.model.shapes import Vector
from dims.surface.loss import LossSurface

__all__ = ["DiagonalCurvature", "fit_diagonal"]

HESSIAN_ROWS = 64


def fit_diagonal(surface: LossSurface, theta: Vector, kind: Kind) -> DiagonalCurvature:
    """The exact diagonal of the GGN or of the Hessian at θ."""
    diagonal = _ggn(surface, theta) if kind is Kind.GGN else _hessian(surface, theta)
    return DiagonalCurvature(surface, diagonal, semidefinite=kind is Kind.GGN)


class DiagonalCurvature(Curvature):
    """P = diag(s·h + c·δ)."""

    def __init__(self, surface: LossSurface, diagonal: Tensor, semidefinite: bool) -> None:
        super().__init__(surface, semidefinite)
        self._diagonal = diagonal

    def dense(self) -> Tensor:
        return torch.diag(self._diagonal).to(self.dtype)

    def precision(self, prior_precision: float | Tensor, scale: float = 1.0) -> Precision:
        prior, scale = self._checked(prior_precision, scale, self._diagonal)
        diagonal = scale * self._diagonal + prior
        if (diagonal <= 0).any():
            if (prior <= 0).any():
                raise no_prior_error("diagonal")
            diagonal = prior * repaired_ratios(diagonal / prior, self.semidefinite)
        return DiagonalPrecision(diagonal, self.dtype)

    def log_determinant(self, prior_precision: Tensor, scale: Tensor) -> Tensor:
        return (scale * self._diagonal + self.loss_scale * prior_precision).log().sum()

    def absolute(self) -> Curvature:
        return self._as_semidefinite(_diagonal=self._diagonal.abs())


class DiagonalPrecision(Precision):
    """P = diag(p), draws z/√p."""

    def __init__(self, diagonal: Tensor, dtype: torch.dtype) -> None:
        super().__init__(len(diagonal), dtype, diagonal)
        self._diagonal = diagonal

    def log_determinant(self) -> float:
        return float(self._diagonal.log().sum())

    def _color(self, noise: Tensor) -> Tensor:
        return noise * self._diagonal.rsqrt()

    def _solve(self, vectors: Tensor) -> Tensor:
        return vectors / self._diagonal


def _ggn(surface: LossSurface, theta: Vector) -> Tensor:
    diagonal = _zeros(theta)
    for jacobians, weights in jacobian_chunks(surface, theta):
        terms = (weights @ jacobians).mul_(jacobians)
        diagonal += terms.flatten(0, 1).sum(0, dtype=diagonal.dtype)
    # Λ ⪰ 0 as a matrix; a sum over outputs can still round to just below zero.
    return diagonal.clamp(min=0)


def _hessian(surface: LossSurface, theta: Vector) -> Tensor:
    size = surface.size
    products = LikelihoodProducts(surface, theta, Kind.HESSIAN, rows=min(size, HESSIAN_ROWS))
    diagonal = _zeros(theta)
    # Blocks of unit vectors, because all of them together would be a K × K matrix.
    step = HESSIAN_ROWS if products.keeps_graph else max(HESSIAN_ROWS, 2**24 // size)
    for start in range(0, size, step):
        index = torch.arange(start, min(start + step, size), device=theta.device)
        rows = torch.arange(len(index), device=theta.device)
        units = theta.new_zeros(len(index), size)
        units[rows, index] = 1
        diagonal[index] = products(units)[rows, index].to(diagonal.dtype)
    return diagonal


def _zeros(theta: Vector) -> Tensor:
    return torch.zeros_like(theta, dtype=wide_dtype(theta.dtype, theta.device))
