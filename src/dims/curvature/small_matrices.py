"""Eigenvalues of many small symmetric matrices, such as Λᵢ of each point.

Of one and two rows they are closed forms. `torch.linalg.eigh` takes them one after the other on a
CPU, and needs gigabytes for some ten thousand of them on a GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["symmetric_eigen"]


def symmetric_eigen(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (…, C) in ascending order and eigenvectors in columns (…, C, C).

    Of [[a, b], [b, c]] with the mean m = (a + c)/2 and d = (a − c)/2:

        m ± √(d² + b²),     (cos φ, sin φ) of the larger one, 2φ = atan2(b, d)
    """
    size = matrices.shape[-1]
    if size == 1:
        return matrices.squeeze(-1), torch.ones_like(matrices)
    if size > 2:
        values, vectors = torch.linalg.eigh(matrices)
        return values, vectors
    (a, b), c = matrices[..., 0, :].unbind(-1), matrices[..., 1, 1]
    mean, half = 0.5 * (a + c), 0.5 * (a - c)
    radius = torch.hypot(half, b)
    angle = 0.5 * torch.atan2(b, half)
    larger = torch.stack([angle.cos(), angle.sin()], dim=-1)
    smaller = torch.stack([-angle.sin(), angle.cos()], dim=-1)
    values = torch.stack([mean - radius, mean + radius], dim=-1)
    return values, torch.stack([smaller, larger], dim=-1)
