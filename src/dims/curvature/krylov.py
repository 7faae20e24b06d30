"""Lanczos: what a symmetric operator does to one vector, from its products alone.

H·V = V·T + β·v·e_mᵀ,     f(H)·b ≈ ‖b‖·V·f(T)·e₁

Each row has its own operator H, start b and size m; V (m, K) is orthonormal, T is tridiagonal.
Rounding destroys the orthogonality of the plain recurrence and breeds ghost copies of the extreme
eigenvalues, so every new vector is orthogonalised against all earlier ones, twice (Parlett, The
Symmetric Eigenvalue Problem, chapter 13).

`lanczos` does this for many rows at once. The chain of `eigenpairs` uses the same steps,
`orthogonalise` and `ritz`, on one vector. Only the loop around them is its own: a matrix-vector
product and a batched product of one row round differently, and so do their scalar products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import torch
from torch import Tensor

from dims.model.shapes import RowFlags, RowIntegers, RowScalars, RowVectors

__all__ = ["Krylov", "QuadraticModel", "Reach", "lanczos", "orthogonalise", "ritz"]

CHECK_EVERY = 8  # products between two looks at which rows are done

Reach = Callable[[Tensor, Tensor], Tensor]  # f(λ, t): how far a mode goes


@dataclass(frozen=True)
class Krylov:
    """The operator of each row, compressed to the Krylov space of its start vector.

    Rows have spaces of different sizes. Beyond its size T is decoupled and its diagonal repeats the
    first entry: a Rayleigh quotient, hence never an extreme eigenvalue.
    """

    basis: Tensor  # (rows, m, size)
    start_norm: RowScalars
    diagonal: Tensor  # (rows, m) of T, float64
    coupling: Tensor  # (rows, m): T beside its diagonal; zero from the row's last vector on
    outgoing: RowScalars  # β, what leads out of the space; zero where the space is invariant
    size: RowIntegers  # m of each row

    @cached_property
    def eigen(self) -> tuple[Tensor, Tensor]:
        """Ritz values, ascending (rows, m), and the eigenvectors of T (rows, m, m)."""
        return ritz(self.diagonal, self.coupling[:, :-1])

    @property
    def weights(self) -> Tensor:
        """The start vector in the eigenbasis of T, (rows, m)."""
        return self.eigen[1][:, 0, :] * self.start_norm.unsqueeze(-1)

    def coordinates(self, modes: Tensor) -> Tensor:
        """From amplitudes in the eigenbasis of T to coordinates in V, both (rows, m)."""
        return (self.eigen[1] @ modes.unsqueeze(-1)).squeeze(-1)

    def leak(self, coordinates: Tensor) -> RowScalars:
        """‖HVc − VTc‖ = β·|c_m|, the part of H·V·c that leaves the space."""
        last = (self.size - 1).clamp(min=0).unsqueeze(-1)
        return self.outgoing * coordinates.gather(1, last).squeeze(-1).abs()

    def lift(self, coordinates: Tensor) -> RowVectors:
        """V·c, a vector of each row."""
        narrowed = coordinates.to(self.basis.dtype).unsqueeze(1)
        return (narrowed @ self.basis).squeeze(1)

    def residuals(self) -> Tensor:
        """‖Hy − θy‖ = β·|e_mᵀy| of every Ritz pair, (rows, m).

        An eigenvalue of H lies within this distance of the Ritz value θ.
        """
        vectors = self.eigen[1]
        last = (self.size - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, vectors.shape[2])
        return self.outgoing.unsqueeze(-1) * vectors.gather(1, last).squeeze(1).abs()

    def select(self, rows: Tensor) -> Krylov:
        """The same for some of the rows."""
        return Krylov(*(getattr(self, field.name)[rows] for field in fields(self)))


def lanczos(
    product: Callable[[Tensor, RowVectors], RowVectors],
    start: RowVectors,
    max_size: int,
    *,
    done: Callable[[Krylov], RowFlags] | None = None,
) -> Krylov:
    """Grow the Krylov space of each row until it is `done`, invariant, or of `max_size`.

    `product(rows, vectors)` multiplies each vector by the operator of its row. A row leaves the
    batch when its own space is finished, so its result does not depend on the others. Where a
    product is not finite the space ends before it; a start that is zero or not finite has T = 0.
    """
    builder = _Builder(start, min(max_size, start.shape[1]))
    rows = builder.open_rows()
    for j in range(builder.max_size):
        if len(rows) == 0:
            break
        image = product(rows, builder.basis[rows, j])
        rows = builder.extend(rows, j, image)
        if done is not None and (j + 1) % CHECK_EVERY == 0 and len(rows) > 0:
            rows = rows[~done(builder.krylov(j + 1))[rows]]
    return builder.krylov(max(1, int(builder.size.max())))


class _Builder:
    """The growing spaces of all rows."""

    def __init__(self, start: RowVectors, max_size: int) -> None:
        count, length = start.shape
        self.max_size = max_size
        self.norm = torch.linalg.vector_norm(start.double(), dim=-1)
        self.good = self.norm.isfinite() & (self.norm > 0)
        self.norm = self.norm.where(self.good, 0.0)
        self.basis = start.new_zeros(count, max_size + 1, length)
        unit = start.double() / self.norm.unsqueeze(-1)
        self.basis[:, 0] = unit.where(self.good.unsqueeze(-1), 0.0).to(start.dtype)
        self.diagonal = self.norm.new_zeros(count, max_size)
        self.coupling = self.norm.new_zeros(count, max_size)
        self.size = torch.zeros(count, dtype=torch.int64, device=start.device)
        self.scale = torch.zeros_like(self.norm)
        self.rounding = 10 * torch.finfo(start.dtype).eps

    def open_rows(self) -> Tensor:
        return self.good.nonzero().squeeze(-1)

    def extend(self, rows: Tensor, j: int, image: RowVectors) -> Tensor:
        """Take in H·v_j, form v_{j+1}, and say which rows go on."""
        finite = image.isfinite().all(-1)
        rows, image = rows[finite], image[finite]
        basis = self.basis[rows, : j + 1]
        self.diagonal[rows, j] = (basis[:, j].double() * image.double()).sum(-1)
        self.size[rows] = j + 1
        self.scale[rows] = torch.maximum(self.scale[rows], _norm(image))
        image, length = orthogonalise(image, basis)
        fresh = length > self.rounding * self.scale[rows]
        rows, image, length = rows[fresh], image[fresh], length[fresh]
        self.coupling[rows, j] = length
        self.basis[rows, j + 1] = (image.double() / length.unsqueeze(-1)).to(image.dtype)
        return rows

    def krylov(self, length: int) -> Krylov:
        last = (self.size - 1).clamp(min=0)
        outgoing = self.coupling.gather(1, last.unsqueeze(-1)).squeeze(-1)
        index = torch.arange(length, device=last.device)
        inside = index <= last.unsqueeze(-1)
        inner = index < last.unsqueeze(-1)
        return Krylov(
            self.basis[:, :length],
            self.norm,
            self.diagonal[:, :length].where(inside, self.diagonal[:, :1]),
            self.coupling[:, :length].where(inner, 0.0),
            outgoing,
            self.size.clone(),
        )


def orthogonalise(vectors: Tensor, *bases: Tensor) -> tuple[Tensor, Tensor]:
    """The part of v outside orthonormal bases, and its length; twice is enough.

    v (K,) with bases (m, K), or rows of them: v (rows, K) with bases (rows, m, K).
    """
    for _ in range(2):
        for basis in bases:
            if vectors.ndim == 1:
                vectors = vectors - (basis @ vectors) @ basis
            else:
                overlap = basis @ vectors.unsqueeze(-1)
                vectors = vectors - (overlap.transpose(1, 2) @ basis).squeeze(1)
    return vectors, _norm(vectors)


def ritz(diagonal: Tensor, coupling: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending (..., m), and eigenvectors (..., m, m) of tridiagonal matrices T."""
    dense = torch.diag_embed(diagonal)
    dense = dense + torch.diag_embed(coupling, 1) + torch.diag_embed(coupling, -1)
    values, vectors = torch.linalg.eigh(dense)
    return values, vectors


def _norm(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors.double(), dim=-1)


@dataclass(frozen=True)
class QuadraticModel:
    """The quadratic L + gᵀp + ½pᵀHp of each row, in the modes (λ, w) of the Krylov space of g.

    Its steps are p = −f(H, t)·g for a reach f(λ, t) that grows with the time t.
    """

    krylov: Krylov
    reach: Reach

    def _modes(self, time: RowScalars) -> tuple[Tensor, Tensor, Tensor]:
        curvature = self.krylov.eigen[0]
        return curvature, self.krylov.weights, self.reach(curvature, time.unsqueeze(-1))

    def move(self, time: RowScalars) -> Tensor:
        """−p = f(H, t)·g, in coordinates of the space."""
        _, weights, reach = self._modes(time)
        return self.krylov.coordinates(reach * weights)

    def promise(self, time: RowScalars) -> RowScalars:
        """−gᵀp − ½pᵀHp = Σ w²(f − ½λf²), the loss to be gained."""
        curvature, weights, reach = self._modes(time)
        return (weights.square() * (reach - 0.5 * curvature * reach.square())).sum(-1)

    def gradient_norm(self, time: RowScalars) -> RowScalars:
        """‖g + Hp‖, with what leaks out of the space."""
        curvature, weights, reach = self._modes(time)
        inside = ((1 - curvature * reach) * weights).square().sum(-1)
        return (inside + self.krylov.leak(self.krylov.coordinates(reach * weights)).square()).sqrt()

    def first_time(
        self, condition: Callable[[RowScalars], RowFlags], limit: RowScalars
    ) -> tuple[RowScalars, RowFlags]:
        """The shortest time up to the limit that meets a condition; the limit if there is none.

        Bisection in the exponent, over sixteen decades: one is found, not always the very first.
        """
        found = condition(limit)
        low, high = 1e-16 * limit, limit
        for _ in range(16):
            middle = (low * high).sqrt()
            met = condition(middle)
            low, high = torch.where(met, low, middle), torch.where(met, middle, high)
        return torch.where(found, high, limit), found

    def select(self, rows: Tensor) -> QuadraticModel:
        if len(rows) == len(self.krylov.size):  # all of them, the common case: no copy
            return self
        return QuadraticModel(self.krylov.select(rows), self.reach)
