"""Lanczos against dense linear algebra."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dims.curvature.krylov import QuadraticModel, lanczos
from dims.sampling.descent import flow


def symmetric(rows: int, size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(rows, size, size, generator=generator, dtype=torch.float64)
    return square + square.transpose(1, 2)


def normal(rows: int, size: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, size, generator=generator, dtype=torch.float64)


def product_of(matrices: Tensor):
    return lambda rows, vectors: (matrices[rows] @ vectors.unsqueeze(-1)).squeeze(-1)


@pytest.mark.parametrize("size", [1, 2, 30])
def test_a_full_space_has_all_eigenvalues_and_applies_any_function(size):
    matrices, starts = symmetric(4, size), normal(4, size)
    krylov = lanczos(product_of(matrices), starts, 1000)
    assert krylov.size.tolist() == [size] * 4
    values, vectors = torch.linalg.eigh(matrices)
    torch.testing.assert_close(krylov.eigen[0], values, rtol=1e-9, atol=1e-9)
    applied = krylov.lift(krylov.coordinates(torch.exp(-0.3 * krylov.eigen[0]) * krylov.weights))
    dense = vectors @ (torch.exp(-0.3 * values).unsqueeze(-1) * vectors.transpose(1, 2))
    torch.testing.assert_close(
        applied, (dense @ starts.unsqueeze(-1)).squeeze(-1), rtol=1e-8, atol=1e-8
    )


def test_the_basis_stays_orthonormal_where_the_plain_recurrence_loses_it():
    """One huge eigenvalue converges within a few steps, and from there on rounding takes over."""
    generator = torch.Generator().manual_seed(2)
    axes = torch.linalg.qr(torch.randn(200, 200, generator=generator, dtype=torch.float64)).Q
    spectrum = torch.linspace(0, 1, 200, dtype=torch.float64)
    spectrum[-1] = 1e6
    matrix = (axes * spectrum) @ axes.T
    krylov = lanczos(product_of(matrix.unsqueeze(0)), normal(1, 200), 80)
    gram = krylov.basis[0] @ krylov.basis[0].T
    torch.testing.assert_close(gram, torch.eye(80, dtype=torch.float64), rtol=0, atol=1e-10)
    assert int((krylov.eigen[0] > 10).sum()) == 1  # no ghost copies


def test_an_eigenvalue_lies_within_the_residual_of_every_ritz_value():
    matrices = symmetric(3, 60)
    krylov = lanczos(product_of(matrices), normal(3, 60), 12)
    exact = torch.linalg.eigvalsh(matrices)
    distance = (krylov.eigen[0].unsqueeze(-1) - exact.unsqueeze(1)).abs().amin(-1)
    residuals = krylov.residuals()
    assert (distance <= residuals + 1e-12).all()
    assert (residuals > 1e-3).any()  # the bound is put to the test
    pairs = krylov.eigen[1].transpose(1, 2) @ krylov.basis  # Ritz vectors
    dense = (pairs @ matrices - krylov.eigen[0].unsqueeze(-1) * pairs).norm(dim=-1)
    torch.testing.assert_close(residuals, dense, rtol=1e-6, atol=1e-9)


def test_leak_is_what_leaves_the_space():
    matrices = symmetric(2, 40)
    krylov = lanczos(product_of(matrices), normal(2, 40), 10)
    coordinates = normal(2, 10, seed=3)
    image = (matrices @ krylov.lift(coordinates).unsqueeze(-1)).squeeze(-1)
    inside = (krylov.basis @ image.unsqueeze(-1)).squeeze(-1)
    outside = image - krylov.lift(inside)
    torch.testing.assert_close(krylov.leak(coordinates), outside.norm(dim=-1))


def test_rows_end_on_their_own():
    """An invariant space of 2, a `done` row, a full one, a zero start and a row of NaN."""
    matrices = symmetric(5, 40)
    matrices[0] = torch.diag(torch.cat([torch.full((20,), 3.0), torch.full((20,), -1.0)]))
    matrices[4] = torch.nan
    starts = normal(5, 40)
    starts[3] = 0
    asked = torch.tensor([False, True, False, False, False])
    krylov = lanczos(product_of(matrices), starts, 30, done=lambda k: asked)
    assert krylov.size.tolist() == [2, 8, 30, 0, 0]
    assert krylov.eigen[0][0, [0, -1]].tolist() == pytest.approx([-1, 3])
    assert float(krylov.outgoing[0]) == 0
    alone = lanczos(product_of(matrices[2:3]), starts[2:3], 30)
    torch.testing.assert_close(krylov.eigen[0][2], alone.eigen[0][0])
    assert krylov.eigen[0].isfinite().all()
    short = lanczos(product_of(matrices[1:2]), starts[1:2], 8)
    torch.testing.assert_close(krylov.eigen[0][1, [0, -1]], short.eigen[0][0, [0, -1]])
    torch.testing.assert_close(krylov.residuals()[1, 0], short.residuals()[0, 0])


def test_a_product_that_fails_later_ends_the_space_before_it():
    matrix = symmetric(1, 20)
    calls = []

    def product(rows: Tensor, vectors: Tensor) -> Tensor:
        calls.append(len(rows))
        good = (matrix[rows] @ vectors.unsqueeze(-1)).squeeze(-1)
        return good if len(calls) < 5 else good * torch.nan

    krylov = lanczos(product, normal(1, 20), 20)
    assert krylov.size.tolist() == [4]
    whole = lanczos(product_of(matrix), normal(1, 20), 4)
    torch.testing.assert_close(krylov.eigen[0], whole.eigen[0])
    torch.testing.assert_close(krylov.residuals(), whole.residuals())


def test_a_model_promises_what_its_step_gains_on_a_quadratic():
    matrices, theta = symmetric(3, 8), normal(3, 8)

    def loss(theta: Tensor) -> Tensor:
        return 0.5 * torch.einsum("si,sij,sj->s", theta, matrices, theta)

    gradient = (matrices @ theta.unsqueeze(-1)).squeeze(-1)
    model = QuadraticModel(lanczos(product_of(matrices), gradient, 8), flow)
    time = torch.tensor([0.01, 0.1, 1.0], dtype=torch.float64)
    end = theta - model.krylov.lift(model.move(time))
    torch.testing.assert_close(model.promise(time), loss(theta) - loss(end))
    slopes = (matrices @ end.unsqueeze(-1)).squeeze(-1).norm(dim=-1)
    torch.testing.assert_close(model.gradient_norm(time), slopes)
    matrices.copy_(matrices @ matrices)  # all positive: the gradient falls with time
    gradient = (matrices @ theta.unsqueeze(-1)).squeeze(-1)
    model = QuadraticModel(lanczos(product_of(matrices), gradient, 8), flow)
    goal = 0.1 * gradient.norm(dim=-1)
    first, found = model.first_time(lambda t: model.gradient_norm(t) <= goal, 100 * time)
    assert found.all()
    torch.testing.assert_close(model.gradient_norm(first), goal, rtol=0.05, atol=0)
