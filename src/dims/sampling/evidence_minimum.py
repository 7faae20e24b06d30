"""One candidate of a search for prior and noise: walk to its minimum and measure there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from dims.curvature import Curvature
from dims.curvature.evidence import NOISE_BOUNDS, EvidenceFit, log_marginal_likelihood
from dims.model.shapes import Vector
from dims.sampling.gauss_newton import MOST_STEPS, FitAt, walk_down
from dims.sampling.leave_one_out import leave_one_out
from dims.surface.loss import LossSurface

__all__ = ["Candidate", "EvidencePath", "Minimum", "minimum_of", "with_predictive_noise"]


@dataclass(frozen=True)
class Candidate:
    """One prior and noise, and the evidence at its minimum.

    Attributes:
        prior_precision: δ, a number, or a vector (K,).
        noise_std: σ; None where the likelihood has none.
        log_marginal_likelihood: log p(D) at the minimum.
        leave_one_out: Σᵢ log p(yᵢ | the other points) there; NaN where only the evidence chooses.
        gradient_norm: Of the loss there; it shows how far the walk came.
        evaluations: Gradients and Hessian-vector products of the walk.
        left_out_points: Mean log p of points that were really left out, where they checked a
            choice; else NaN.
    """

    prior_precision: float | Tensor
    noise_std: float | None
    log_marginal_likelihood: float
    gradient_norm: float
    evaluations: int
    leave_one_out: float = math.nan
    left_out_points: float = math.nan


@dataclass(frozen=True)
class EvidencePath(EvidenceFit):
    """The best candidate, and all others: the curve of the evidence.

    Attributes:
        candidates: In the order of their prior precision; those of layers come last.
        chosen_by: The score that decided: "log_marginal_likelihood" or "leave_one_out".
        seconds: What the search took.
    """

    candidates: tuple[Candidate, ...] = ()
    seconds: float = 0.0
    chosen_by: str = "log_marginal_likelihood"

    @property
    def evaluations(self) -> int:
        """Gradients and Hessian-vector products of all walks."""
        return sum(candidate.evaluations for candidate in self.candidates)


@dataclass(frozen=True)
class Minimum:
    """A candidate with its surface, minimum and curvature, and the leave-one-out scores (n,)."""

    candidate: Candidate
    surface: LossSurface
    theta: Vector
    curvature: Curvature
    left_out: Tensor | None

    def checked(self, left_out_points: float, evaluations: int) -> Minimum:
        """The same, with what points that were really left out say, and what that took."""
        known = self.candidate
        evaluations += known.evaluations
        known = replace(known, left_out_points=left_out_points, evaluations=evaluations)
        return replace(self, candidate=known)


def minimum_of(
    surface: LossSurface,
    theta: Vector,
    delta: Tensor,
    sigma: float | None,
    fit_at: FitAt,
    open_noise: bool,
    by_leaving_out: bool,
    most_steps: int = MOST_STEPS,
) -> Minimum:
    """Walk from θ to the minimum under δ and σ, and measure the evidence there.

    With `open_noise`, λ = δσ² is what counts: σ only sets the scale of the loss on the way, and
    both δ and σ take their best values at that λ: those of the evidence, or of leaving points out.
    """
    under = _under(surface, delta, sigma)
    walk = walk_down(under, theta, fit_at, most_steps=most_steps)
    theta, points = walk.theta, None
    if by_leaving_out:
        points, factor = leave_one_out(under, theta, walk.curvature, open_noise)
    elif open_noise:
        targets = surface.effective_points * surface.outputs
        factor = math.sqrt(2 * walk.loss / surface.loss_scale / targets)
    if open_noise:
        under = _with_other_noise(under, factor)
    curvature = walk.curvature
    value = log_marginal_likelihood(under, theta, curvature.absolute())
    slope = under.value_and_grad(theta.unsqueeze(0))[1].double().norm()
    score = math.nan if points is None else float(points.sum())
    noise = under.likelihood.noise_std
    candidate = Candidate(_shown(under), noise, value, float(slope), walk.evaluations, score)
    return Minimum(candidate, under, theta, curvature, points)


def with_predictive_noise(best: Minimum) -> Minimum:
    """The same minimum with the σ whose leave-one-out score is best at its δσ², if that is larger.

    A smaller one is not believed: what a network has learnt by heart is left out too kindly, and σ
    is where that does most harm.
    """
    points, factor = leave_one_out(
        best.surface, best.theta, best.curvature, open_noise=True, smallest_factor=1.0
    )
    surface = _with_other_noise(best.surface, factor)
    candidate = replace(
        best.candidate,
        prior_precision=_shown(surface),
        noise_std=surface.likelihood.noise_std,
        log_marginal_likelihood=log_marginal_likelihood(surface, best.theta, best.curvature),
        leave_one_out=float(points.sum()),
    )
    return Minimum(candidate, surface, best.theta, best.curvature, points)


def _with_other_noise(surface: LossSurface, factor: float) -> LossSurface:
    """σ times the factor, within its bounds, at the same δσ²."""
    sigma = surface.likelihood.noise_std
    assert sigma is not None
    new = min(max(sigma * factor, NOISE_BOUNDS[0]), NOISE_BOUNDS[1])
    return _under(surface, surface.prior_precision * (sigma / new) ** 2, new)


def _shown(surface: LossSurface) -> float | Tensor:
    delta = surface.prior_precision
    return float(delta) if delta.ndim == 0 else delta


def _under(surface: LossSurface, delta: Tensor, sigma: float | None) -> LossSurface:
    likelihood = None if sigma is None else surface.likelihood.with_noise(sigma)
    return surface.with_settings(likelihood=likelihood, prior_precision=delta)
