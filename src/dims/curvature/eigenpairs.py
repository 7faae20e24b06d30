"""Leading eigenpairs of a symmetric operator by Lanczos with full reorthogonalisation.

    A·Qₘ = Qₘ·Tₘ + βₘ·qₘ₊₁·eₘᵀ,     T·s = λ·s  ⇒  ‖A·Qs − λ·Qs‖ = βₘ·|sₘ|

One Krylov chain sees a single copy of a multiple eigenvalue (a network with C independent outputs
has each of them C times). So the pairs of a finished chain are locked, and a fresh chain in their
complement looks for others, until one finds nothing larger. Reference: Parlett, The Symmetric
Eigenvalue Problem, ch. 13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dims.curvature.krylov import orthogonalise, ritz

__all__ = ["Eigenpairs", "leading_eigenpairs"]

PROBE = 20  # products after which a chain that found nothing larger is believed
CHECK_EVERY = 10  # products between two looks at the eigenvalues


class Eigenpairs(NamedTuple):
    """Eigenvalues by falling size (r,), orthonormal eigenvectors (K, r), and what they cost."""

    values: Tensor
    vectors: Tensor
    converged: bool
    products: int


def leading_eigenpairs(
    multiply: Callable[[Tensor], Tensor],
    start: Callable[[], Tensor],
    rank: int,
    *,
    tolerance: float = 1e-3,
    max_products: int | None = None,
) -> Eigenpairs:
    """The `rank` eigenpairs of largest |λ|, each with ‖A·x − λ·x‖ ≤ tolerance·|λ| or at rounding.

    `multiply` maps a vector (K,) to A·x and `start` draws random vectors (K,). At most
    `max_products` products (6·rank + 200 when None) are spent; then what is there is returned,
    not converged. Eigenvalues below the rounding of the largest are left out, so fewer than `rank`
    come back for an operator of lower rank.
    """
    vector = start()
    size = len(vector)
    rank = min(rank, size)
    budget = max_products or 6 * rank + 200
    values, vectors = vector.new_zeros(0, dtype=torch.float64), vector.new_zeros(0, size)
    spent, converged = 0, True
    while spent < budget and len(vectors) < size:
        allowed = max(PROBE, budget - spent)
        chain = _chain(multiply, vector, values, vectors, rank, tolerance, allowed)
        spent += chain.products
        converged = chain.converged
        merged = torch.cat([values, chain.values])
        kept = merged.abs().argsort(descending=True)[:rank]
        found = bool((kept >= len(values)).any())
        vectors = torch.cat([vectors, chain.vectors.T])[kept]
        values = merged[kept]
        if not found:
            break
        vector = start()
    return Eigenpairs(values, vectors.T, converged, spent)


def _chain(
    multiply: Callable[[Tensor], Tensor],
    start: Tensor,
    locked_values: Tensor,
    locked: Tensor,
    rank: int,
    tolerance: float,
    budget: int,
) -> Eigenpairs:
    """One Krylov chain in the complement of the locked vectors.

    It ends when all its pairs that belong to the `rank` largest of both are converged.
    """
    rounding = 50 * torch.finfo(start.dtype).eps
    longest = min(budget, len(start) - len(locked))
    basis = start.new_empty(min(longest, 2 * rank + PROBE), len(start))
    diagonal: list[float] = []
    side: list[float] = []
    vector, length = orthogonalise(start, locked, basis[:0])
    vector = vector / float(length)
    largest = float(locked_values.abs().max()) if len(locked_values) else 0.0
    while True:
        if len(diagonal) == len(basis):
            basis = torch.cat(
                [basis, basis.new_empty(min(longest, 2 * len(basis)) - len(basis), len(start))]
            )
        basis[len(diagonal)] = vector
        image = multiply(vector)
        diagonal.append(float(vector.double() @ image.double()))
        steps = len(diagonal)
        vector, length = orthogonalise(image, locked, basis[:steps])
        norm = float(length)
        largest = max(largest, abs(diagonal[-1]), norm)
        exhausted = norm <= rounding * largest
        last = exhausted or steps == longest
        if last or (steps >= PROBE and steps % CHECK_EVERY == 0):
            entries = (torch.tensor(part, dtype=torch.float64) for part in (diagonal, side))
            values, weights = ritz(*entries)
            residuals = 0.0 * values if exhausted else norm * weights[-1].abs()
            largest = max(largest, float(values.abs().max()))
            accepted = residuals <= (tolerance * values.abs()).clamp(min=rounding * largest)
            merged = torch.cat([locked_values.cpu(), values])
            wanted = merged.abs().argsort(descending=True)[:rank]
            wanted = wanted[wanted >= len(locked_values)] - len(locked_values)
            enough = len(locked_values) + steps >= rank
            done = enough and bool(accepted[wanted].all())
            if last or done:
                break
        side.append(norm)
        vector = vector / norm
    wanted = wanted[values[wanted].abs() > rounding * largest]
    vectors = weights[:, wanted].T.to(basis) @ basis[:steps]
    complete = exhausted or done or steps == len(start) - len(locked)
    return Eigenpairs(values[wanted].to(locked_values.device), vectors.T, complete, steps)
