"""Eigenvalues of small matrices, beside torch's and as a product that gives the matrix back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dims.curvature.small_matrices import symmetric_eigen


def matrices(size: int) -> Tensor:
    """By chance, diagonal in both orders, with equal values, of rank one, and zero."""
    generator = torch.Generator().manual_seed(size)
    drawn = torch.randn(50, size, size, generator=generator, dtype=torch.float64)
    diagonal = torch.arange(1.0, size + 1, dtype=torch.float64)
    special = [torch.diag(diagonal), torch.diag(diagonal.flip(0)), torch.eye(size).double()]
    special += [torch.ones(size, size).double(), torch.zeros(size, size).double()]
    return torch.cat([drawn + drawn.mT, torch.stack(special)])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_they_are_those_of_torch(size: int) -> None:
    given = matrices(size)
    values, vectors = symmetric_eigen(given)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(given), rtol=1e-12, atol=1e-12)
    back = (vectors * values.unsqueeze(-2)) @ vectors.mT
    torch.testing.assert_close(back, given, rtol=1e-12, atol=1e-12)
    unit = torch.eye(size).double().expand_as(given)
    torch.testing.assert_close(vectors.mT @ vectors, unit, rtol=1e-12, atol=1e-12)
