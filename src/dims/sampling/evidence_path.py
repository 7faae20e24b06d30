"""The evidence at the minimum of each candidate: prior and noise chosen where draws will live.

`tune_evidence` keeps θ where training stopped. A prior that suits an early-stopped θ* may be far
too weak for its own minimum. Here the prior precision δ takes the values of a grid, θ follows to
the minimum of each, and the Laplace evidence is compared at these minima:

    θ(δ) = argmin L(θ; δ),     δ̂ = argmax log p(D | θ(δ), δ)

With an open Gaussian noise σ the grid is in λ = δσ²: θ(λ) depends on λ alone, and at a fixed λ

    σ² = (Σ‖y − f‖² + λ‖θ‖²) / (number of targets)

maximises the evidence exactly, so the search has one dimension either way.

The evidence of small classifiers prefers priors so weak that their minima overfit, and
leave-one-out scores (`leave_one_out`) do so on small regression sets, whose evidence is right. So
the cautious choice is by the evidence where the likelihood has a noise, and by leaving out where it
has none. The noise of the chosen minimum is then that whose leave-one-out score is best, if it is
larger.
"""

from __future__ import annotations

import math
import time
import warnings

import torch

from dims.curvature.evidence import PRIOR_BOUNDS
from dims.errors import EvidenceWarning
from dims.model.shapes import Vector
from dims.sampling.evidence_choice import STEP, chosen, value_of
from dims.sampling.evidence_minimum import (
    Candidate,
    EvidencePath,
    Minimum,
    with_predictive_noise,
)
from dims.sampling.evidence_search import Search
from dims.sampling.gauss_newton import FitAt
from dims.surface.loss import LossSurface

__all__ = ["tune_at_minima"]

AS_GOOD = 0.1  # nats
AT_AN_END = (
    "evidence: its maximum lies at an end of the grid of prior precisions; the data do not "
    "determine it. Give one, such as prior_precision=1.0"
)
STOPPED = (
    "evidence: it still rose when the search ended, after {} curvatures; the best prior precision "
    "so far, {:.3g}, was taken. Data with next to no noise do that. If predictions of held-out "
    "rows are poor, give one, such as prior_precision=1.0"
)


def tune_at_minima(
    surface: LossSurface,
    theta: Vector,
    fit_at: FitAt,
    prior: str,
    tune_noise: bool,
    score: str = "log_marginal_likelihood",
    cautious: bool = False,
) -> tuple[EvidencePath, Minimum]:
    """Choose prior precision and noise by a score at the minimum of each candidate.

    The search for the best evidence starts from that at θ* and goes outwards; each candidate starts
    from its neighbour. That by leaving out starts from a strong prior, and each candidate from θ*.
    Groups ("layer", "tensor") climb from the scalar choice by what the evidence there wants next.

    Args:
        surface: The loss surface with its likelihood.
        theta: θ*, (K,).
        fit_at: The curvature of a surface at a point.
        prior: "scalar", "layer", "tensor", or "fixed".
        tune_noise: Whether σ is open.
        score: What candidates are compared by, a field of `Candidate`.
        cautious: Take the strongest prior whose leave-one-out score is not worse than the best by
            more than a standard error; where that score may mislead, `left_out` checks it.

    Returns:
        The search with its curve, and the best candidate with its minimum.
    """
    began = time.perf_counter()
    search = Search(surface, theta, fit_at, prior, tune_noise, score, cautious)
    places = search.scan(theta)
    place, converged = _choice(search, places, cautious)
    if search.left_out is not None:
        places = search.left_out.noted(places)
    best, minima = places[place], [places[each] for each in sorted(places)]
    if prior in ("layer", "tensor"):
        groups = search.groups(best, score)
        best, minima = groups[-1], [*minima, *groups[1:]]
    if cautious and search.open_noise and search.open_prior:
        best = with_predictive_noise(best)
        minima.append(best)
    candidates, winner = tuple(minimum.candidate for minimum in minima), best.candidate
    path = EvidencePath(
        winner.prior_precision,
        winner.noise_std,
        winner.log_marginal_likelihood,
        converged,
        _at_bound(winner, prior),
        len(candidates),
        candidates,
        time.perf_counter() - began,
        score,
    )
    if not converged:
        delta = float(torch.as_tensor(winner.prior_precision).double().mean())
        told = STOPPED.format(search.curvatures, delta) if search.is_spent else AT_AN_END
        warnings.warn(told, EvidenceWarning, stacklevel=5)  # the caller of `fit`
    return path, best


def _choice(search: Search, places: dict[float, Minimum], cautious: bool) -> tuple[float, bool]:
    """The place that is taken, and whether the best is inside the range that was looked at."""
    top, place = chosen(places, search.score, False), chosen(places, search.score, cautious)
    # Weaker priors would have had better scores still, had points that were left out not said no.
    refuted = search.refuted and top == min(places)
    if search.left_out is not None:
        place = search.left_out.weakest(places, top if refuted else place)
    converged = (refuted or min(places) < top) and top < max(places)
    if search.open_prior and not search.by_leaving_out:
        as_good = _as_good(places, search.score)
        if max(places) in as_good:  # all that they explain is nothing
            place, converged = min(as_good), False
    return place, converged or not search.is_open


def _as_good(places: dict[float, Minimum], score: str) -> list[float]:
    """Places with next to the best score; steps under the weakest of their priors are longest."""
    values = {place: value_of(minimum, score) for place, minimum in places.items()}
    return [place for place, value in values.items() if value >= max(values.values()) - AS_GOOD]


def _at_bound(chosen: Candidate, prior: str) -> tuple[str, ...]:
    delta = torch.as_tensor(chosen.prior_precision).double()
    low, high = PRIOR_BOUNDS
    close = (delta < low * math.exp(STEP)) | (delta > high * math.exp(-STEP))
    return ("prior_precision",) if prior != "fixed" and bool(close.any()) else ()
