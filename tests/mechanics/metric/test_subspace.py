"""Leading directions by sweeps and by dense matrices, beside `torch.linalg.eigh`."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dims.mechanics.metric.subspace import Product, dense_pairs, sweep

ROWS, RANK, SIZE = 3, 4, 30
SPECTRA = {
    "definite": [1000.0, 300.0, 100.0, 30.0, 1.0],
    "indefinite": [1000.0, -300.0, 100.0, -30.0, 1.0],
}


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matrices(leading: list[float]) -> Tensor:
    """Symmetric (S, K, K) with the given eigenvalues, the last repeated; others in every row."""
    turns = torch.linalg.qr(randn(ROWS, SIZE, SIZE))[0]
    values = torch.tensor(leading + leading[-1:] * (SIZE - len(leading)), dtype=torch.float64)
    values = values * torch.tensor([[1.0], [2.0], [0.5]], dtype=torch.float64)
    return turns @ values.diag_embed() @ turns.mT


def product_with(matrix: Tensor) -> Product:
    return lambda vectors: vectors @ matrix.to(vectors.dtype)


def leading_pairs(matrix: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest |λ| and the projector on their directions, by eigh."""
    values, vectors = torch.linalg.eigh(matrix)
    order = values.abs().argsort(dim=-1, descending=True)[:, :count]
    chosen = vectors.mT.gather(1, order.unsqueeze(-1).expand(-1, -1, SIZE))
    return values.abs().gather(-1, order), chosen.mT @ chosen


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", list(SPECTRA))
def test_sweeps_converge_to_the_leading_directions(name, dtype):
    matrix = matrices(SPECTRA[name])
    start = torch.linalg.qr(randn(ROWS, SIZE, RANK, seed=1))[0].mT.to(dtype)
    values, basis = sweep(product_with(matrix), start, 12)
    wanted, projector = leading_pairs(matrix, RANK)
    rounding = 1e-8 if dtype == torch.float64 else 1e-4
    assert values.dtype == torch.float64
    assert basis.dtype == dtype
    torch.testing.assert_close(values, wanted, rtol=10 * rounding, atol=0)
    torch.testing.assert_close((basis.mT @ basis).double(), projector, rtol=0, atol=rounding)
    identity = torch.eye(RANK, dtype=torch.float64).expand(ROWS, -1, -1)
    torch.testing.assert_close((basis @ basis.mT).double(), identity, rtol=0, atol=rounding)


@pytest.mark.parametrize("name", list(SPECTRA))
def test_a_sweep_never_claims_more_than_there_is(name):
    """σ(P·Q) of orthonormal Q is at most the |λ| in its place: nothing is softened too far."""
    matrix = matrices(SPECTRA[name])
    start = torch.linalg.qr(randn(ROWS, SIZE, RANK, seed=1))[0].mT
    wanted, _ = leading_pairs(matrix, RANK)
    before = torch.zeros_like(wanted)
    for sweeps in (1, 2, 4):
        values, _ = sweep(product_with(matrix), start, sweeps)
        assert (values <= wanted * (1 + 1e-12)).all()
        assert (values.diff(dim=-1) <= 0).all()
        assert (values >= before * (1 - 1e-12)).all()
        before = values


def test_one_sweep_from_the_right_directions_is_enough():
    """A refresh goes on from the last subspace: what is invariant already stays."""
    matrix = matrices(SPECTRA["indefinite"])
    _, vectors = torch.linalg.eigh(matrix)
    values = torch.linalg.eigvalsh(matrix)
    order = values.abs().argsort(dim=-1, descending=True)[:, :RANK]
    exact = vectors.mT.gather(1, order.unsqueeze(-1).expand(-1, -1, SIZE))
    turned = torch.linalg.qr(randn(RANK, RANK))[0] @ exact  # the same space, other vectors
    found, basis = sweep(product_with(matrix), turned, 1)
    torch.testing.assert_close(found, values.abs().gather(-1, order))
    # Each direction is an eigenvector again, up to its sign.
    overlaps = (basis * exact).sum(-1).abs()
    torch.testing.assert_close(overlaps, torch.ones_like(overlaps))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", list(SPECTRA))
def test_dense_pairs_are_those_of_eigh(name, dtype):
    matrix = matrices(SPECTRA[name])
    values, basis = dense_pairs(product_with(matrix), ROWS, SIZE, torch.empty(0, dtype=dtype))
    wanted, _ = leading_pairs(matrix, SIZE)
    rounding = 1e-10 if dtype == torch.float64 else 1e-3
    torch.testing.assert_close(values, wanted, rtol=rounding, atol=rounding)
    assert basis.dtype == dtype
    # |P| = Uᵀ diag|λ| U, which has no signs of eigenvectors in it.
    found = basis.double().mT @ (values.unsqueeze(-1) * basis.double())
    eigenvalues, vectors = torch.linalg.eigh(matrix)
    size = vectors @ (eigenvalues.abs().unsqueeze(-1) * vectors.mT)
    torch.testing.assert_close(found, size, rtol=0, atol=rounding * float(size.abs().max()))


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("dense", [False, True])
def test_a_row_that_is_not_finite_touches_no_other(dense, poison):
    matrix = matrices(SPECTRA["indefinite"])
    bad = matrix.clone()
    bad[1, 2, 3] = poison
    start = torch.linalg.qr(randn(ROWS, SIZE, RANK, seed=1))[0].mT

    def pairs(matrix: Tensor) -> tuple[Tensor, Tensor]:
        if dense:
            return dense_pairs(product_with(matrix), ROWS, SIZE, start)
        return sweep(product_with(matrix), start, 2)

    healthy, found = pairs(matrix), pairs(bad)
    assert found[0][1].isnan().all()
    assert found[1].isfinite().all()
    for ours, theirs in zip(found, healthy, strict=True):
        assert torch.equal(ours[[0, 2]], theirs[[0, 2]])
