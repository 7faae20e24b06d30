"""What a frame does to vectors, beside dense matrices F."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import dims
from dims.mechanics.metric.frame import Frame, evaluate

ROWS, RANK, SIZE = 4, 3, 7
PRECISIONS = [torch.float64, torch.float32]


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    numbers = torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return numbers.to(dtype)


def make_frame(scaled: bool, dtype: torch.dtype) -> Frame:
    """Another U, s and R in every row; one s is exactly 1."""
    basis = torch.linalg.qr(randn(ROWS, SIZE, RANK, seed=1))[0].mT.contiguous()
    softening = torch.linspace(0.01, 1.0, ROWS * RANK, dtype=torch.float64).view(ROWS, RANK)
    scale = randn(ROWS, SIZE, seed=2).exp() if scaled else torch.zeros(ROWS, 0)
    return replace(
        Frame.euclidean(randn(ROWS, SIZE, dtype=dtype)),
        basis=basis.to(dtype),
        softening=softening.to(dtype),
        scale=scale.to(dtype),
    )


def dense(frame: Frame) -> Tensor:
    """F = R·(I + Uᵀ(s − 1)U) of each row, (S, K, K)."""
    basis, softening = frame.basis.double(), frame.softening.double()
    matrix = torch.eye(SIZE, dtype=torch.float64) + basis.mT @ (
        (softening - 1).diag_embed() @ basis
    )
    return frame.scale.double().diag_embed() @ matrix if frame.scale.shape[1] else matrix


def times(matrix: Tensor, vectors: Tensor) -> Tensor:
    return torch.einsum("sij,sj->si", matrix, vectors.double())


def assert_close(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    assert found.dtype == dtype
    rounding = 1e-12 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(found.double(), wanted, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("scaled", [False, True])
def test_products_are_those_of_dense_matrices(scaled, dtype):
    frame = make_frame(scaled, dtype)
    matrix, vectors = dense(frame), randn(ROWS, SIZE, dtype=dtype)
    inverse = torch.linalg.inv(matrix)
    assert not frame.is_euclidean
    assert_close(frame.lift(vectors), times(matrix, vectors), dtype)
    assert_close(frame.pull(vectors), times(matrix.mT, vectors), dtype)
    # 1/s and 1/R make the rounding of float32 larger.
    small = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {}
    lowered, raw = frame.lower(vectors).double(), frame.raw(vectors).double()
    torch.testing.assert_close(lowered, times(inverse, vectors), **small)
    torch.testing.assert_close(raw, times(inverse.mT, vectors), **small)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("scaled", [False, True])
def test_two_vectors_at_once_are_two_vectors(scaled, dtype):
    frame = make_frame(scaled, dtype)
    first, second = randn(ROWS, SIZE, seed=3, dtype=dtype), randn(ROWS, SIZE, seed=4, dtype=dtype)
    lifted = frame.lift_both(first, second)
    for vectors, found in zip((first, second), lifted, strict=True):
        assert_close(found, times(dense(frame), vectors), dtype)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_diagonal_alone_is_a_frame_too(scaled):
    """Rank 0 with R: only the diagonal is left, and without it nothing."""
    frame = make_frame(scaled, torch.float64)
    frame = replace(frame, basis=frame.basis[:, :0], softening=frame.softening[:, :0])
    vectors = randn(ROWS, SIZE)
    assert frame.is_euclidean == (not scaled)
    wanted = frame.scale * vectors if scaled else vectors
    torch.testing.assert_close(frame.lift(vectors), wanted)
    torch.testing.assert_close(frame.pull(vectors), wanted)
    torch.testing.assert_close(frame.raw(frame.pull(vectors)), vectors)
    torch.testing.assert_close(frame.lower(frame.lift(vectors)), vectors)


def test_without_directions_nothing_is_touched():
    vectors, others = randn(ROWS, SIZE), randn(ROWS, SIZE, seed=5)
    frame = Frame.euclidean(vectors)
    for method in (frame.lift, frame.pull, frame.lower, frame.raw):
        assert method(vectors) is vectors
    assert frame.lift_both(vectors, others) == (vectors, others)
    bare = make_frame(False, torch.float64).without_basis()
    assert bare.is_euclidean
    assert bare.lift(vectors) is vectors


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("scaled", [False, True])
def test_the_euclidean_speed_is_that_of_the_lifted_curve(scaled, dtype):
    frame, velocity = make_frame(scaled, dtype), randn(ROWS, SIZE, dtype=dtype)
    climb = randn(ROWS, seed=6)
    lifted = times(dense(frame), velocity)
    wanted = (lifted.square().sum(-1) + climb.square()).sqrt()
    torch.testing.assert_close(frame.euclidean_speed(velocity, climb), wanted, rtol=1e-5, atol=1e-5)
    # In the euclidean metric it is the speed itself.
    plain = Frame.euclidean(velocity).euclidean_speed(velocity, climb)
    wanted = (velocity.double().square().sum(-1) + climb.square()).sqrt()
    torch.testing.assert_close(plain, wanted, rtol=1e-5, atol=1e-5)


def test_a_row_of_nan_stays_alone():
    frame, vectors = make_frame(True, torch.float64), randn(ROWS, SIZE)
    poisoned = vectors.clone()
    poisoned[1] = torch.nan
    others = [0, 2, 3]
    for name in ("lift", "pull", "lower", "raw"):
        found = getattr(frame, name)(poisoned)
        assert found[1].isnan().all()
        assert torch.equal(found[others], getattr(frame, name)(vectors)[others])


@pytest.mark.parametrize("scaled", [False, True])
def test_the_gradient_in_the_frame_is_that_of_the_function_there(scaled):
    """∇L̃ = Fᵀ∇L, by automatic differentiation of L̃(φ) = L(θ + Fφ)."""
    frame = make_frame(scaled, torch.float64)
    surface = dims.Surface(lambda theta: theta.sin().sum() + theta.prod())
    points = randn(ROWS, SIZE)
    loss, gradient = evaluate(surface, points, torch.float64, frame)
    phi = torch.zeros(ROWS, SIZE, dtype=torch.float64, requires_grad=True)
    there = points + torch.einsum("sij,sj->si", dense(frame), phi)
    values = there.sin().sum(-1) + there.prod(-1)
    (wanted,) = torch.autograd.grad(values.sum(), phi)
    torch.testing.assert_close(loss, values.detach())
    torch.testing.assert_close(gradient, wanted)


def test_in_float32_the_rounding_of_a_position_is_taken_out():
    """On a steep plane the loss at a float64 point is known to first order: here exactly."""
    tilt = torch.full((SIZE,), 1e4)
    surface = dims.Surface(lambda theta: theta @ tilt.to(theta.dtype))
    points = 1 + 1e-9 * randn(ROWS, SIZE)
    frame = Frame.euclidean(points.float())
    loss, _ = evaluate(surface, points, torch.float32, frame)
    # What is left is the rounding of L itself, the same for all points that round alike.
    found, wanted = loss - loss[0], (points - points[0]) @ tilt.double()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-9)
