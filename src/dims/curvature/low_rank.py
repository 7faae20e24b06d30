"""Low-rank curvature: the leading eigenpairs of H, and the prior alone in all other directions.

    H ≈ U·diag(λ)·Uᵀ,     P = s·U·diag(λ)·Uᵀ + c·diag(δ)

The curvature that is left out makes draws wider in those directions, never narrower (for a GGN).
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from dims.curvature.base import (
    Curvature,
    Kind,
    Precision,
    log_determinant_of,
    no_prior_error,
    repaired_ratios,
    wide_dtype,
)
from dims.curvature.eigenpairs import leading_eigenpairs
from dims.curvature.products import LikelihoodProducts
from dims.errors import EigenpairsWarning
from dims.model.shapes import Vector, check_integer
from dims.surface.loss import LossSurface

__all__ = ["LowRankCurvature", "SpectralPrecision", "fit_low_rank"]


def fit_low_rank(
    surface: LossSurface, theta: Vector, kind: Kind, rank: int, seed: int
) -> LowRankCurvature:
    """The `rank` eigenpairs of largest |λ| of the GGN or Hessian at θ; never a K × K matrix."""
    check_integer("rank", rank)
    products = LikelihoodProducts(surface, theta, kind)
    generator = torch.Generator().manual_seed(seed)

    def start() -> Tensor:
        return torch.randn(surface.size, generator=generator, dtype=torch.float64).to(theta)

    pairs = leading_eigenpairs(lambda vector: products(vector.unsqueeze(0))[0], start, rank)
    if not pairs.converged:
        warnings.warn(
            f"low-rank curvature: {pairs.products} products were not enough for {rank} converged "
            "eigenpairs; the last ones are approximate. A smaller rank is cheaper and exact",
            EigenpairsWarning,
            stacklevel=3,
        )
    values = pairs.values.clamp(min=0) if kind is Kind.GGN else pairs.values
    return LowRankCurvature(surface, pairs.vectors, values, semidefinite=kind is Kind.GGN)


class LowRankCurvature(Curvature):
    """P = D^(½)·(I + V·diag(m)·Vᵀ)·D^(½), D = c·diag(δ), V·diag(m)·Vᵀ = s·D^(−½)·H·D^(−½)."""

    def __init__(
        self, surface: LossSurface, vectors: Tensor, values: Tensor, semidefinite: bool
    ) -> None:
        super().__init__(surface, semidefinite)
        dtype = wide_dtype(vectors.dtype, vectors.device)
        # Lanczos vectors are orthonormal to the rounding of the surface's precision only.
        self._vectors = torch.linalg.qr(vectors.to(dtype)).Q
        self._values = values.to(dtype)

    @property
    def rank(self) -> int:
        return len(self._values)

    @property
    def eigenvalues(self) -> Tensor:
        """λ by falling size, (r,)."""
        return self._values.to(self.dtype)

    @property
    def eigenvectors(self) -> Tensor:
        """U, (K, r)."""
        return self._vectors.to(self.dtype)

    def dense(self) -> Tensor:
        return ((self._vectors * self._values) @ self._vectors.T).to(self.dtype)

    def precision(self, prior_precision: float | Tensor, scale: float = 1.0) -> SpectralPrecision:
        prior, scale = self._checked(prior_precision, scale, self._values)
        values = scale * self._values
        if (prior <= 0).any():
            raise no_prior_error("low-rank")
        if prior.ndim == 0:
            vectors, ratios = self._vectors, 1 + values / prior
        else:
            frame, triangle = torch.linalg.qr(prior.rsqrt()[:, None] * self._vectors)
            ratios, rotation = torch.linalg.eigh((triangle * values) @ triangle.T)
            vectors, ratios = frame @ rotation, 1 + ratios
        ratios = repaired_ratios(ratios, self.semidefinite)
        return SpectralPrecision(prior, vectors, ratios, self.size, self.dtype)

    def log_determinant(self, prior_precision: Tensor, scale: Tensor) -> Tensor:
        prior = self.loss_scale * prior_precision
        if prior.ndim == 0:
            rest = self.size - self.rank
            return (scale * self._values + prior).log().sum() + rest * prior.log()
        root = self._values.sqrt()
        inner = scale * root[:, None] * ((self._vectors.T / prior) @ self._vectors) * root
        return log_determinant_of(inner, prior)

    def absolute(self) -> Curvature:
        return self._as_semidefinite(_values=self._values.abs())


class SpectralPrecision(Precision):
    """P = D^(½)·(I + V·diag(f − 1)·Vᵀ)·D^(½),  D = c·diag(δ),  V (K, r) orthonormal,  f > 0.

    Σ = D^(−½)·(I + V·diag(1/f − 1)·Vᵀ)·D^(−½): O(rK) for each vector, r = K at most.
    """

    def __init__(
        self, prior: Tensor, vectors: Tensor, ratios: Tensor, size: int, dtype: torch.dtype
    ) -> None:
        super().__init__(size, dtype, vectors)
        self._prior = prior  # D's diagonal, or the number all of it equals
        self._root = prior.rsqrt()
        self._vectors = vectors
        self._ratios = ratios

    def log_determinant(self) -> float:
        prior = self._prior.expand(self.size).log().sum()
        return float(prior + self._ratios.log().sum())

    def _color(self, noise: Tensor) -> Tensor:
        return self._root * self._along(noise, self._ratios.rsqrt())

    def _solve(self, vectors: Tensor) -> Tensor:
        return self._root * self._along(self._root * vectors, 1 / self._ratios)

    def _along(self, rows: Tensor, factors: Tensor) -> Tensor:
        return rows + ((rows @ self._vectors) * (factors - 1)) @ self._vectors.T
