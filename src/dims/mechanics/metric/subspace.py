"""The leading directions of a symmetric operator for each row, followed by subspace iteration."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Product", "dense_pairs", "sweep"]

Product = Callable[[Tensor], Tensor]  # vectors (m, q, K) of m rows -> their products


def sweep(product: Product, basis: Tensor, sweeps: int) -> tuple[Tensor, Tensor]:
    """Improve `basis` (m, q, K) by products with P: |λ|, descending (m, q), and directions.

    A sweep takes P·Q = U·Σ·Vᵀ: U spans what a power iteration would, and Σ holds |λ| as far as Q
    was invariant, never more. It needs no definite P and q products.
    """
    values = basis.new_zeros(basis.shape[:2], dtype=torch.float64)
    for _ in range(sweeps):
        basis, values = _compressed(product(basis))
    return values, basis


def _compressed(images: Tensor) -> tuple[Tensor, Tensor]:
    """U and Σ of P·Q, row by row: what is not finite becomes zero and is seen by the caller."""
    good = images.isfinite().all(-1).all(-1)
    images = images.where(good.view(-1, 1, 1), 0.0)
    directions, small = torch.linalg.qr(images.mT)
    turn, values, _ = torch.linalg.svd(small.double())
    basis = (directions @ turn.to(directions.dtype)).mT.contiguous()
    return basis, values.where(good.unsqueeze(-1), torch.nan)


def dense_pairs(product: Product, rows: int, size: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """All K pairs of small operators."""
    identity = torch.eye(size, dtype=like.dtype, device=like.device).expand(rows, -1, -1)
    matrix = product(identity).double()
    good = matrix.isfinite().all(-1).all(-1)
    matrix = matrix.where(good.view(-1, 1, 1), 0.0)
    values, vectors = torch.linalg.eigh(0.5 * (matrix + matrix.mT))
    order = values.abs().argsort(dim=-1, descending=True)
    values = values.abs().gather(-1, order)
    basis = vectors.mT.gather(1, order.unsqueeze(-1).expand_as(vectors))
    return values.where(good.unsqueeze(-1), torch.nan), basis.to(like.dtype).contiguous()
