"""Full curvature: H as one dense matrix.

GGN: H = s·Σᵢ Jᵢᵀ Λᵢ Jᵢ          Hessian: H = ∇²(s·Σᵢ −log p(yᵢ|f_θ(xᵢ)))
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from dims.curvature.base import (
    Curvature,
    Kind,
    Precision,
    log_determinant_of,
    no_prior_error,
    repaired_ratios,
    working_dtype,
)
from dims.curvature.low_rank import SpectralPrecision
from dims.curvature.products import LikelihoodProducts, jacobian_chunks
from dims.curvature.small_matrices import symmetric_eigen
from dims.model.shapes import Vector
from dims.model.torch_support.free_memory import check_fits, readable
from dims.surface.loss import LossSurface

__all__ = ["FullCurvature", "fit_full"]

FULL_LIMIT = 20_000  # parameters; the matrix alone has 1.6 GB in float32 there
COPIES = 4  # of the matrix: itself, with a prior, its factor or eigenvectors, and work space
ADVICE = "use 'low_rank', 'kronecker' or 'diagonal'"
HESSIAN_ROWS = 64  # Hessian-vector products that share one pass through the network's graph
BLOCK = 256  # below blocks of this many columns JᵀΛJ is copied from above the diagonal


def fit_full(surface: LossSurface, theta: Vector, kind: Kind) -> FullCurvature:
    """The dense GGN or Hessian of the likelihood part at θ."""
    dtype = working_dtype(surface.size, theta.dtype, theta.device)
    needed = COPIES * surface.size**2 * dtype.itemsize
    what = f"curvature: 'full', {COPIES} matrices of {surface.size} × {surface.size} numbers,"
    if surface.size > FULL_LIMIT:
        raise ValueError(f"{what} would need {readable(needed)}; {ADVICE}")
    check_fits(what, needed, theta.device, ADVICE)
    matrix = _ggn(surface, theta) if kind is Kind.GGN else _hessian(surface, theta)
    return FullCurvature(surface, matrix, semidefinite=kind is Kind.GGN)


class FullCurvature(Curvature):
    """P = s·H + c·diag(δ) through a Cholesky factor."""

    def __init__(self, surface: LossSurface, matrix: Tensor, semidefinite: bool) -> None:
        super().__init__(surface, semidefinite)
        self._matrix = matrix

    def dense(self) -> Tensor:
        return self._matrix.to(self.dtype)

    def precision(self, prior_precision: float | Tensor, scale: float = 1.0) -> Precision:
        prior, scale = self._checked(prior_precision, scale, self._matrix)
        matrix = scale * self._matrix
        matrix.diagonal().add_(prior)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not failed and _well_conditioned(factor, matrix):
            return CholeskyPrecision(factor, self.dtype)
        if (prior <= 0).any():
            raise no_prior_error("full")
        root = prior.rsqrt().expand(self.size)
        values, vectors = torch.linalg.eigh(scale * root[:, None] * self._matrix * root)
        ratios = repaired_ratios(1 + values, self.semidefinite)
        return SpectralPrecision(prior, vectors, ratios, self.size, self.dtype)

    def log_determinant(self, prior_precision: Tensor, scale: Tensor) -> Tensor:
        prior = self.loss_scale * prior_precision
        if prior.ndim == 0:
            return (scale * self._eigenvalues.clamp(min=0) + prior).log().sum()
        root = prior.rsqrt()
        return log_determinant_of(scale * root[:, None] * self._matrix * root, prior)

    def absolute(self) -> Curvature:
        if self.semidefinite:
            return self
        values, vectors = torch.linalg.eigh(self._matrix)
        other = self._as_semidefinite(_matrix=(vectors * values.abs()) @ vectors.T)
        other.__dict__.pop("_eigenvalues", None)
        return other

    @cached_property
    def _eigenvalues(self) -> Tensor:
        return torch.linalg.eigvalsh(self._matrix)


class CholeskyPrecision(Precision):
    """P = L·Lᵀ, draws L⁻ᵀ·z."""

    def __init__(self, factor: Tensor, dtype: torch.dtype) -> None:
        super().__init__(len(factor), dtype, factor)
        self._factor = factor

    def log_determinant(self) -> float:
        return float(2 * self._factor.diagonal().log().sum())

    def _color(self, noise: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self._factor.T, noise.T, upper=True).T

    def _solve(self, vectors: Tensor) -> Tensor:
        return torch.cholesky_solve(vectors.T, self._factor).T


def _well_conditioned(factor: Tensor, matrix: Tensor) -> bool:
    """Are all pivots above the rounding of the matrix, so that they mean something?"""
    rounding = torch.finfo(matrix.dtype).eps * len(matrix) * matrix.diagonal().max()
    return bool((factor.diagonal().square() > rounding).all())


def _ggn(surface: LossSurface, theta: Vector) -> Tensor:
    size = surface.size
    dtype = working_dtype(size, theta.dtype, theta.device)
    matrix = torch.zeros(size, size, dtype=dtype, device=theta.device)
    for jacobians, weights in jacobian_chunks(surface, theta):
        # In float64 a sum of JᵀΛJ stays semidefinite down to the small curvatures that the prior
        # competes with; in float32 it would be lost beside the large ones.
        roots, signs = _square_roots(weights, dtype)
        factors = (roots @ jacobians.to(dtype)).flatten(0, 1)
        signed = factors if (signs > 0).all() else signs.reshape(-1, 1) * factors
        for start in range(0, size, BLOCK):
            rows, columns = slice(start, start + BLOCK), slice(start, size)
            matrix[rows, columns].addmm_(signed[:, rows].T, factors[:, columns])
    for start in range(0, size, BLOCK):
        rows, beyond = slice(start, start + BLOCK), slice(start + BLOCK, size)
        matrix[beyond, rows] = matrix[rows, beyond].T
        matrix[rows, rows] = 0.5 * (matrix[rows, rows] + matrix[rows, rows].T)
    return matrix


def _square_roots(weights: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rᵢ (n, r, C) and signs (n, r) with Λᵢ = Rᵢᵀ·sign·Rᵢ, computed in this dtype.

    Directions in which no Λᵢ has more weight than its rounding are left out: a softmax has one.
    """
    values, vectors = symmetric_eigen(weights.to(dtype))
    sizes = values.abs().amax(0)
    kept = sizes > len(sizes) * torch.finfo(weights.dtype).eps * sizes.max()
    values, vectors = values[:, kept], vectors[..., kept]
    signs = torch.where(values < 0, -1.0, 1.0).to(values.dtype)
    return values.abs().sqrt().unsqueeze(-1) * vectors.mT, signs


def _hessian(surface: LossSurface, theta: Vector) -> Tensor:
    size = surface.size
    dtype = working_dtype(size, theta.dtype, theta.device)
    products = LikelihoodProducts(surface, theta, Kind.HESSIAN, rows=min(size, HESSIAN_ROWS))
    columns = products(torch.eye(size, dtype=theta.dtype, device=theta.device)).to(dtype)
    return 0.5 * (columns + columns.T)
