"""The leading directions of a symmetric operator for each row, followed by subspace iteration."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Product", "dense_pairs", "sweep"]

ORTHONORMAL = 1e-4  # how far products of directions may be from those of orthonormal ones

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
    directions, small = _factored(images)
    turn, values, _ = torch.linalg.svd(small.double())
    basis = (directions @ turn.to(directions.dtype)).mT.contiguous()
    return basis, values.where(good.unsqueeze(-1), torch.nan)


def _factored(images: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal columns D (m, K, q) and a small S (m, q, q) with D·S = imagesᵀ."""
    if images.is_cuda and len(images) > 1:
        return _cholesky_factored(images)
    directions, small = torch.linalg.qr(images.mT)
    return directions, small


def _cholesky_factored(images: Tensor) -> tuple[Tensor, Tensor]:
    """The same by Cholesky factors: a GPU computes a batch of QR one by one.

    Images of directions that were nearly right are nearly orthogonal, and then two rounds are as
    good. Rows that are not orthonormal after them are factored by QR.
    """
    rows = images / torch.linalg.vector_norm(images, dim=-1, keepdim=True).clamp(min=1e-30)
    for _ in range(2):
        wide = rows.double()
        factor, _ = torch.linalg.cholesky_ex(wide @ wide.mT)
        rows = torch.linalg.solve_triangular(factor, wide, upper=False).to(images.dtype)
    identity = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    good = ((rows @ rows.mT - identity).abs() < ORTHONORMAL).flatten(1).all(-1)
    directions = rows.mT
    if not good.all():
        directions = directions.clone()
        directions[~good] = torch.linalg.qr(images[~good].mT)[0]
    return directions, (images.double() @ directions.double()).mT


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
