"""A precision known through eigenvectors in the frame of the prior.

P = D^(½)·(I + V·diag(f − 1)·Vᵀ)·D^(½),     D = c·diag(δ),  V (K, r) orthonormal,  f > 0
"""

from __future__ import annotations

import torch
from torch import Tensor

from dims.curvature.base import Precision

__all__ = ["SpectralPrecision"]


class SpectralPrecision(Precision):
    """Σ = D^(−½)·(I + V·diag(1/f − 1)·Vᵀ)·D^(−½): O(rK) for each vector, r = K at most."""

    def __init__(
        self, prior: Tensor, vectors: Tensor, ratios: Tensor, size: int, dtype: torch.dtype
    ) -> None:
        super().__init__(size, dtype, vectors.dtype)
        self._prior = prior  # D's diagonal, or the number all of it equals
        self._root = prior.rsqrt()
        self._vectors = vectors
        self._ratios = ratios

    @property
    def device(self) -> torch.device:
        return self._vectors.device

    def log_determinant(self) -> float:
        prior = self._prior.expand(self.size).log().sum()
        return float(prior + self._ratios.log().sum())

    def _color(self, noise: Tensor) -> Tensor:
        return self._root * self._along(noise, self._ratios.rsqrt())

    def _solve(self, vectors: Tensor) -> Tensor:
        return self._root * self._along(self._root * vectors, 1 / self._ratios)

    def _along(self, rows: Tensor, factors: Tensor) -> Tensor:
        return rows + ((rows @ self._vectors) * (factors - 1)) @ self._vectors.T
