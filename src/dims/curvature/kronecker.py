"""Kronecker-factored curvature (KFAC): one pair of small factors for each weight matrix.

    H_W ≈ B ⊗ A  for a weight (out, in),  H_b ≈ B  for a bias;  other blocks are zero.

A is the mean of a·aᵀ over the layer's inputs, B the sum over its backpropagated GGN factors.
References: Martens & Grosse 2015; Grosse & Martens 2016; Eschenhagen et al. 2023 (KFAC-expand).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dims.curvature.base import Curvature, Precision, no_prior_error, wide_dtype
from dims.surface.loss import LossSurface

__all__ = ["KroneckerBlock", "KroneckerCurvature"]


class Factor(NamedTuple):
    """A symmetric factor Q·diag(l)·Qᵀ."""

    vectors: Tensor
    values: Tensor

    def dense(self) -> Tensor:
        return (self.vectors * self.values) @ self.vectors.T


@dataclass(frozen=True)
class KroneckerBlock:
    """H of the parameters `where`: left ⊗ right, or left alone (a bias)."""

    where: slice
    left: Factor
    right: Factor | None

    @property
    def eigenvalues(self) -> Tensor:
        """The eigenvalues as a matrix (out, in), or (out,) for a single factor."""
        if self.right is None:
            return self.left.values
        return torch.outer(self.left.values, self.right.values)

    def dense(self) -> Tensor:
        left = self.left.dense()
        return left if self.right is None else torch.kron(left, self.right.dense())

    def apply(self, rows: Tensor, function_of_eigenvalues: Tensor) -> Tensor:
        """Q·g(l)·Qᵀ·u for rows u of this block, (S, size of the block)."""
        if self.right is None:
            inner = (rows @ self.left.vectors) * function_of_eigenvalues
            return inner @ self.left.vectors.T
        matrices = rows.reshape(len(rows), *function_of_eigenvalues.shape)
        inner = self.left.vectors.T @ matrices @ self.right.vectors * function_of_eigenvalues
        return (self.left.vectors @ inner @ self.right.vectors.T).flatten(1)


class KroneckerCurvature(Curvature):
    """P of each block has the eigenvalues s·lᵢ·mⱼ + c·δ; δ must be constant within a block."""

    def __init__(self, surface: LossSurface, factors: list[tuple[Tensor, Tensor | None]]) -> None:
        """`factors`: (B, A) or (B, None) for each tensor of θ, in the order of θ."""
        super().__init__(surface, semidefinite=True)
        places = surface.vector.slices().values()
        self._names = surface.vector.names
        self._blocks = [
            KroneckerBlock(place, _decompose(left), None if right is None else _decompose(right))
            for place, (left, right) in zip(places, factors, strict=True)
        ]

    def dense(self) -> Tensor:
        return torch.block_diag(*(block.dense() for block in self._blocks)).to(self.dtype)

    def precision(self, prior_precision: float | Tensor, scale: float = 1.0) -> Precision:
        prior, scale = self._checked(prior_precision, scale, self._blocks[0].left.values)
        spectra = self._spectra(prior, scale)
        if (prior <= 0).any() and any(_is_singular(spectrum) for spectrum in spectra):
            raise no_prior_error("Kronecker")
        return KroneckerPrecision(self._blocks, spectra, self.size, self.dtype)

    def log_determinant(self, prior_precision: Tensor, scale: Tensor) -> Tensor:
        spectra = self._spectra(self.loss_scale * prior_precision, scale)
        return torch.stack([spectrum.log().sum() for spectrum in spectra]).sum()

    def absolute(self) -> Curvature:
        return self

    def _spectra(self, prior: Tensor, scale: float | Tensor) -> list[Tensor]:
        """The eigenvalues of P of each block."""
        spectra = []
        for name, block in zip(self._names, self._blocks, strict=True):
            part = prior.reshape(1) if prior.ndim == 0 else prior[block.where]
            if len(part) > 1 and (part != part[0]).any():
                raise ValueError(
                    f"prior_precision: varies within {name!r}, and a Kronecker block takes one "
                    "number; give one for each tensor, or use another structure"
                )
            spectra.append(scale * block.eigenvalues + part[0])
        return spectra


class KroneckerPrecision(Precision):
    """Σ = Q·diag(1/p)·Qᵀ, draws Q·diag(p^(−½))·Qᵀ·z, block by block."""

    def __init__(
        self, blocks: list[KroneckerBlock], spectra: list[Tensor], size: int, dtype: torch.dtype
    ) -> None:
        super().__init__(size, dtype, spectra[0])
        self._blocks = blocks
        self._spectra = spectra

    def log_determinant(self) -> float:
        return float(sum(spectrum.log().sum() for spectrum in self._spectra))

    def _color(self, noise: Tensor) -> Tensor:
        return self._power(noise, -0.5)

    def _solve(self, vectors: Tensor) -> Tensor:
        return self._power(vectors, -1.0)

    def _power(self, rows: Tensor, exponent: float) -> Tensor:
        parts = zip(self._blocks, self._spectra, strict=True)
        images = [block.apply(rows[:, block.where], p**exponent) for block, p in parts]
        return torch.cat(images, dim=-1)


def _decompose(matrix: Tensor) -> Factor:
    dtype = wide_dtype(matrix.dtype, matrix.device)
    values, vectors = torch.linalg.eigh(matrix.detach().to(dtype))
    return Factor(vectors, values.clamp(min=0))


def _is_singular(spectrum: Tensor) -> bool:
    rounding = torch.finfo(spectrum.dtype).eps * spectrum.numel() * spectrum.max()
    return bool(spectrum.min() <= rounding)
