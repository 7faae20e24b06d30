"""`certify`: is a draw a minimum of the loss, on the scale that matters?

A point is a minimum if g = 0 and H ⪰ 0, but no computed point is, and a draw that was settled in
the stiff directions is not meant to be: it keeps the slope and the small curvatures, of either
sign, of the flat ones. So there is a curvature ε below which a direction counts as flat, and the
two conditions are asked of the stiff ones:

    at rest     ½ gᵀ|H|(H² + ε²I)⁻¹g ≤ 0.01·c     (c: `loss_scale`)
    no saddle   λ_min(H) ≥ −ε

The first is the Newton decrement ½ gᵀH⁻¹g, the loss that is still to be gained, with a smooth cut:
a mode λ ≫ ε counts in full, a mode λ ≪ ε only with λ²/ε² of its gain. The loss of a network is a
negative log posterior, so 0.01 says that the posterior density at the draw is within a hundredth
of that at the bottom of its stiff directions. A gradient norm has no such meaning: 10 is nothing
across a valley of curvature 1e5 (gain 5e-4), and 0.2 is a slope in a direction of 0.1 (gain 0.2).
Flat directions may slope, but not without end: ½ gᵀ(|H| + εI)⁻¹g, their gain if they were as
curved as ε, must stay below ½·c, what a posterior sample has in a single direction.

ε is twenty times the prior's curvature c·δ, the one that directions have about which the data say
nothing; without a prior it is 1e-6 of the largest curvature. Hessian-vector products are known to
rounding only, hence never less than 100 units of rounding of the largest curvature.

The kinetic energy is reported and not judged: it belongs to the end of the trajectory, and always
some is left (T decays like 1/t²), whereas the draw is a place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from dims.curvature.krylov import Krylov, lanczos
from dims.model.network import BatchedNetwork, prior_curvature
from dims.model.shapes import (
    RowFlags,
    RowIntegers,
    RowScalars,
    RowVectors,
    check_integer,
    check_positive,
)
from dims.prediction.showing import Shown, counted_names
from dims.sampling.settle import rows_in_memory
from dims.surface.base import BaseSurface
from dims.surface.loss import LossSurface

__all__ = ["FLAT_PRIORS", "FLAT_SHARE", "Certificates", "Verdict", "certify", "flat_limit"]

NEGLIGIBLE_GAIN = 0.01  # in stiff directions, in units of a log posterior
FLAT_GAIN = 50.0  # what all directions together may gain, in units of the negligible gain
FLAT_PRIORS = 20.0  # ε in units of the prior's curvature
FLAT_SHARE = 1e-6  # ε in units of λ_max, where there is no prior
FLAT_ROUNDING = 100.0  # ε is at least so many units of rounding of λ_max
RESOLUTION = 0.01  # eigenvalues are wanted to this share of ε
LEAK = 0.05  # the share of ‖g‖ that may be missed when the gain is computed


class Verdict(Enum):
    """What a draw is; the value says what to do about it."""

    MINIMUM = (
        "in the stiff directions at rest and nowhere curved downwards, though flat ones may slope "
        "and bend: use it"
    )
    SADDLE = (
        "at rest but curved downwards: the trajectory stopped early; in posterior.sample(...) "
        'raise max_time, or give settle="full"'
    )
    NOT_AT_REST = (
        "the loss still falls in stiff directions: in posterior.sample(...) raise max_time, give "
        'settle="full", or use more friction'
    )
    UNDECIDED = (
        "the smallest eigenvalue is not known well enough, or the loss is not finite there: raise "
        "max_products, use float64, or look at the status of the trajectory"
    )

    @property
    def advice(self) -> str:
        return str(self.value)


@dataclass(frozen=True, repr=False)
class Certificates(Shown):
    """What is known of each draw."""

    loss: RowScalars
    gradient_norm: RowScalars
    gain: RowScalars  # ½ gᵀ|H|(H² + ε²I)⁻¹g, the loss to be gained in stiff directions
    damped_gain: RowScalars  # ½ gᵀ(|H| + εI)⁻¹g, with the flat ones
    smallest_eigenvalue: RowScalars  # never below the true one, above it by at most the error
    smallest_error: RowScalars  # the residual ‖Hy − λy‖ of the Lanczos vector, and rounding
    largest_eigenvalue: RowScalars
    largest_error: RowScalars
    flat_curvature: RowScalars  # ε
    kinetic_energy: RowScalars  # NaN where not given
    displacement: RowScalars
    products: RowIntegers  # Hessian-vector products spent
    verdict: list[Verdict]

    def _facts(self) -> dict[str, Any]:
        return {
            "rows": len(self.loss),
            "verdicts": counted_names(verdict.name for verdict in self.verdict),
            "smallest_eigenvalue": float(self.smallest_eigenvalue.min()),
        }


def certify(
    surface: BaseSurface,
    thetas: Tensor,
    kinetic_energy: RowScalars | None = None,
    displacement: RowScalars | None = None,
    *,
    flat_curvature: float | None = None,
    negligible_gain: float | None = None,
    max_products: int = 300,
    seed: int = 0,
) -> Certificates:
    """Loss, slope, extreme curvatures and a verdict for every row.

    A row is a minimum if ½ gᵀ|H|(H² + ε²I)⁻¹g is negligible and λ_min(H) ≥ −ε.

    Args:
        surface: A `Surface` or `LossSurface`.
        thetas: The rows to judge, (S, K).
        kinetic_energy: Kinetic energy of each row, (S,), which is reported and not judged.
        displacement: How far settling moved each row, likewise.
        flat_curvature: ε, below which a direction is flat; None: 20 curvatures of the prior.
        negligible_gain: Loss not worth gaining in stiff directions; None: 0.01 × `loss_scale`.
        max_products: Most Hessian-vector products of a row.
        seed: Of the vector that Lanczos starts from.

    Returns:
        What is known of each row, and its verdict.

    Raises:
        TypeError: `surface` is not a surface.
        ValueError: A number is out of its range, or a tensor has another shape.

    Example:
        >>> dims.certify(posterior.surface, draws.parameters).verdict
    """
    parts = rows_in_memory(surface, thetas, check_integer("max_products", max_products))
    for name, given in (("kinetic_energy", kinetic_energy), ("displacement", displacement)):
        if given is not None and given.shape != thetas.shape[:1]:
            raise ValueError(f"{name}: expected {len(thetas)} numbers, got {tuple(given.shape)}")
    scale = surface.loss_scale if isinstance(surface, LossSurface) else 1.0
    usual = NEGLIGIBLE_GAIN * scale
    bar = check_positive("negligible_gain", usual if negligible_gain is None else negligible_gain)
    floor = flat_limit(surface)
    if flat_curvature is not None:
        floor = check_positive("flat_curvature", flat_curvature)
    examiner = _Examiner(surface, floor, 0.0 if floor > 0 else FLAT_SHARE, max_products, seed)
    measured = [examiner(rows) for rows in parts]
    found = {name: torch.cat([part[name] for part in measured]) for name in measured[0]}
    nothing = torch.full_like(found["loss"], torch.nan)
    return Certificates(
        **found,
        kinetic_energy=nothing if kinetic_energy is None else kinetic_energy,
        displacement=nothing if displacement is None else displacement,
        verdict=_verdicts(found, bar),
    )


def flat_limit(surface: BaseSurface | BatchedNetwork) -> float:
    """ε as the prior has it, 20·c·δ; 0 where there is none and λ_max must do."""
    return FLAT_PRIORS * prior_curvature(surface)


def _verdicts(found: dict[str, Tensor], bar: float) -> list[Verdict]:
    smallest, error = found["smallest_eigenvalue"], found["smallest_error"]
    flat, gain = found["flat_curvature"], found["gain"]
    moving = (gain > bar) | (found["damped_gain"] > FLAT_GAIN * bar)
    known = smallest.isfinite()
    # A Ritz value is never below the smallest eigenvalue, but for rounding: a saddle is certain.
    saddle = smallest < -flat
    doubtful = smallest - error < -flat
    tests = (  # the first that holds decides
        (~known, Verdict.UNDECIDED),
        (moving, Verdict.NOT_AT_REST),
        (saddle, Verdict.SADDLE),
        (doubtful, Verdict.UNDECIDED),
    )
    return [
        next((verdict for flags, verdict in tests if flags[row]), Verdict.MINIMUM)
        for row in range(len(gain))
    ]


@dataclass(frozen=True)
class _Examiner:
    """Measures some rows: ε = max(floor, share·λ_max, rounding)."""

    surface: BaseSurface
    floor: float
    share: float
    max_products: int
    seed: int

    def __call__(self, thetas: RowVectors) -> dict[str, Tensor]:
        loss, gradient = self.surface.value_and_grad(thetas)
        norm = torch.linalg.vector_norm(gradient.double(), dim=-1)
        finite = loss.isfinite() & norm.isfinite()
        rounding = torch.finfo(thetas.dtype).eps

        def product(rows: Tensor, vectors: RowVectors) -> RowVectors:
            return self.surface.grad_and_hvp(thetas[rows], vectors)[1]

        def flat(krylov: Krylov) -> RowScalars:
            largest = krylov.eigen[0].abs().amax(-1)
            share = max(self.share, FLAT_ROUNDING * rounding)
            return torch.clamp(share * largest, min=self.floor)

        def resolved(krylov: Krylov) -> RowFlags:
            return krylov.residuals()[:, 0] <= RESOLUTION * flat(krylov)

        start = self._start(thetas).where(finite.unsqueeze(-1), 0.0)
        spectrum = lanczos(product, start, self.max_products, done=resolved)
        values, residuals = spectrum.eigen[0], spectrum.residuals()
        blur = 10 * rounding * values.abs().amax(-1)
        cut = flat(spectrum)

        def captured(krylov: Krylov) -> RowFlags:
            modes = krylov.weights / (krylov.eigen[0].abs() + cut.unsqueeze(-1))
            return krylov.leak(krylov.coordinates(modes)) <= LEAK * krylov.start_norm

        slope = lanczos(product, gradient, self.max_products, done=captured)
        curvature, epsilon = slope.eigen[0].abs(), cut.unsqueeze(-1)
        stiff = (curvature / (curvature.square() + epsilon.square())).nan_to_num(0.0)
        damped = 1 / (curvature + epsilon).clamp(min=torch.finfo(torch.float64).tiny)
        known = finite & (spectrum.size > 0) & ((slope.size > 0) | (norm == 0))
        numbers = {
            "gain": 0.5 * (slope.weights.square() * stiff).sum(-1),
            "damped_gain": 0.5 * (slope.weights.square() * damped).sum(-1),
            "smallest_eigenvalue": values[:, 0],
            "smallest_error": residuals[:, 0] + blur,
            "largest_eigenvalue": values[:, -1],
            "largest_error": residuals[:, -1] + blur,
            "flat_curvature": cut,
        }
        return {
            "loss": loss,
            "gradient_norm": norm,
            "products": spectrum.size + slope.size,
            **{name: number.where(known, torch.nan) for name, number in numbers.items()},
        }

    def _start(self, thetas: RowVectors) -> RowVectors:
        """One vector for all rows: a certificate does not depend on the rows beside it."""
        generator = torch.Generator().manual_seed(self.seed)
        vector = torch.randn(thetas.shape[1], generator=generator, dtype=torch.float64)
        return vector.to(thetas).expand(len(thetas), -1)
