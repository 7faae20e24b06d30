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
from torch import Tensor

from dims.curvature import Curvature
from dims.curvature.evidence import (
    NOISE_BOUNDS,
    PRIOR_BOUNDS,
    EvidenceFit,
    check_structure,
    tune_evidence,
)
from dims.errors import EvidenceWarning
from dims.model.shapes import Vector
from dims.sampling.evidence_choice import STEP, chosen, value_of, vertex
from dims.sampling.evidence_minimum import (
    Candidate,
    EvidencePath,
    Minimum,
    minimum_of,
    with_predictive_noise,
)
from dims.sampling.gauss_newton import MOST_STEPS as WALK_STEPS
from dims.sampling.gauss_newton import FitAt
from dims.sampling.left_out import checked, needs_check
from dims.surface.loss import LossSurface

__all__ = ["tune_at_minima"]

FALL = 3.0  # nats below the best at which a side of the grid has been seen
MOST_STEPS = 12  # candidates on each side
POLISHES = 2  # parabolas through the best three of the evidence
FEW_STEPS = 25  # of a walk to a candidate, where it need not be compared to a tenth of a nat
MOST_CURVATURES = 300  # of a scan: where data have next to no noise, it would go on for hours
LONGEST_GROUP_STEP = math.log(10)  # of a round in the log δ of a layer
ROUNDS = 6  # of layers or tensors
ENOUGH = 0.1  # nats: what another round must gain

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
            more than a standard error; where that score may mislead, check it (`left_out`).

    Returns:
        The search with its curve, and the best candidate with its minimum.
    """
    began = time.perf_counter()
    search = _Search(surface, fit_at, prior, tune_noise, score)
    places = search.scan(theta)
    place = chosen(places, score, cautious)
    if cautious and search.by_leaving_out and search.is_open and needs_check(surface):
        place, places = checked(places, place, theta, search.fit_at, FEW_STEPS)
    best = places[place]
    minima = [places[each] for each in sorted(places)]
    converged = not search.is_open or min(places) < chosen(places, score, False) < max(places)
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


class _Search:
    """Candidates by their place: log δ, or log λ = log δσ² where σ is open."""

    def __init__(
        self,
        surface: LossSurface,
        fit_at: FitAt,
        prior: str,
        tune_noise: bool,
        score: str,
    ) -> None:
        check_structure(prior)
        self.surface, self.prior, self.curvatures = surface, prior, 0
        self._fit_at = fit_at
        self.score, self.by_leaving_out = score, score == "leave_one_out"
        self.open_prior = prior != "fixed"
        self.open_noise = tune_noise and surface.likelihood.noise_std is not None

    @property
    def is_open(self) -> bool:
        """Whether there is anything to choose."""
        return self.open_prior or self.open_noise

    @property
    def is_spent(self) -> bool:
        """Whether the scan has had all the curvatures it may have."""
        return self.curvatures >= MOST_CURVATURES

    def fit_at(self, surface: LossSurface, theta: Vector) -> Curvature:
        self.curvatures += 1
        return self._fit_at(surface, theta)

    def scan(self, theta: Vector) -> dict[float, Minimum]:
        """A grid from its origin outwards until the score has fallen, then parabolas at its top."""
        if not self.is_open:
            return {0.0: self._walked(theta, self.surface.prior_precision, None)}
        origin = self._strong_place(theta) if self.by_leaving_out else self._tuned_place(theta)
        minima = {origin: self._at(origin, theta, self.surface.likelihood.noise_std)}
        for side in (-STEP, STEP):
            for number in range(1, MOST_STEPS + 1):
                place, nearest = origin + side * number, minima[origin + side * (number - 1)]
                best = max(value_of(minimum, self.score) for minimum in minima.values())
                seen = value_of(nearest, self.score) < best - FALL or self.is_spent
                if seen or not self._within(place, nearest):
                    break
                minima[place] = self._next(place, nearest, theta)
        for _ in range(0 if self.by_leaving_out else POLISHES):
            top = vertex(minima, self.score)
            if top is None or self.is_spent:
                break
            inner = [p for p in minima if 0 <= (p - origin) / (top - origin) <= 1]
            nearest = minima[max(inner, key=lambda p: abs(p - origin))]
            minima[top] = self._next(top, nearest, theta)
        return minima

    def groups(self, scalar: Minimum, score: str) -> list[Minimum]:
        """One δ for each layer or tensor: uphill by the evidence at each minimum in turn.

        At a minimum L does not change with θ to first order, so what the evidence at a fixed θ
        wants is uphill up to the change of log det P; a round that loses is halved.
        """
        found = [scalar]
        for _ in range(ROUNDS):
            here = found[-1]
            wanted = self._tuned(here.surface, here.theta, here.curvature, self.prior)
            change = _log_ratio(wanted, here)
            share = LONGEST_GROUP_STEP / max(LONGEST_GROUP_STEP, float(change.abs().max()))
            gain = -math.inf
            for _ in range(4):
                step = (share * change).exp()
                delta = (here.surface.prior_precision.double() * step).to(here.theta.dtype)
                trial = self._walked(here.theta, delta, here.candidate.noise_std)
                gain = value_of(trial, score) - value_of(here, score)
                if gain > 0:
                    found.append(trial)
                    break
                share *= 0.5
            if gain < ENOUGH:
                break
        return found

    def _strong_place(self, theta: Vector) -> float:
        """Where the prior costs θ* as much as it explains more than zero weights do.

        ½·δ‖θ*‖² = L(0) − L(θ*),     both without the prior
        """
        bare = self.surface.with_settings(prior_precision=0.0)
        none, here = bare.value(torch.stack([torch.zeros_like(theta), theta])).tolist()
        square = float(theta.double() @ theta.double())
        worth = 2 * (none - here) / self.surface.loss_scale
        if not (math.isfinite(worth) and worth > len(theta)):
            worth = len(theta)  # the prior under which θ* is typical
        delta = min(max(worth / square if square > 0 else 1.0, PRIOR_BOUNDS[0]), PRIOR_BOUNDS[1])
        sigma = self.surface.likelihood.noise_std
        return math.log(delta * sigma**2 if self.open_noise and sigma is not None else delta)

    def _tuned_place(self, theta: Vector) -> float:
        """Where the evidence at θ* has its best, kept away from the ends of the range."""
        prior = "scalar" if self.open_prior else "fixed"
        tuned = self._tuned(self.surface, theta, self.fit_at(self.surface, theta), prior)
        sigma = tuned.noise_std or 1.0
        delta = torch.as_tensor(tuned.prior_precision).double().mean()
        low, high = (bound * 1e3**sign for bound, sign in zip(PRIOR_BOUNDS, (1, -1), strict=True))
        if self.open_prior:
            delta = delta.clamp(low, high)
        return math.log(float(delta) * sigma**2 if self.open_noise else float(delta))

    def _tuned(
        self, surface: LossSurface, theta: Vector, curvature: Curvature, prior: str
    ) -> EvidenceFit:
        with warnings.catch_warnings():  # it is a start, not the answer
            warnings.simplefilter("ignore", EvidenceWarning)
            return tune_evidence(surface, theta, curvature, prior=prior, tune_noise=self.open_noise)

    def _within(self, place: float, nearest: Minimum) -> bool:
        """Whether δ and σ of a place are inside their bounds."""
        delta, sigma = self._values(place, nearest.candidate.noise_std)
        fits = sigma is None or NOISE_BOUNDS[0] <= sigma <= NOISE_BOUNDS[1]
        inside = bool((delta >= PRIOR_BOUNDS[0]).all() and (delta <= PRIOR_BOUNDS[1]).all())
        return fits and (inside or not self.open_prior)

    def _next(self, place: float, nearest: Minimum, theta: Vector) -> Minimum:
        """Walked from the neighbour; leave-one-out scores want a walk from θ*.

        They trust a minimum that keeps what a weaker prior has learnt by heart.
        """
        start = theta if self.by_leaving_out else nearest.theta
        return self._at(place, start, nearest.candidate.noise_std)

    def _at(self, place: float, theta: Vector, sigma: float | None) -> Minimum:
        delta, sigma = self._values(place, sigma)
        return self._walked(theta, delta, sigma)

    def _values(self, place: float, sigma: float | None) -> tuple[Tensor, float | None]:
        """δ and σ of a place; with both open, σ is a guess that only sets the scale of the loss."""
        given = self.surface.prior_precision
        if not self.open_noise:
            return given.new_tensor(math.exp(place)), sigma
        assert sigma is not None
        if not self.open_prior:
            return given, math.sqrt(math.exp(place) / float(given.double().mean()))
        return given.new_tensor(math.exp(place) / sigma**2), sigma

    def _walked(self, theta: Vector, delta: Tensor, sigma: float | None) -> Minimum:
        profile, left_out = self.open_prior and self.open_noise, self.by_leaving_out
        steps = FEW_STEPS if left_out else WALK_STEPS
        return minimum_of(self.surface, theta, delta, sigma, self.fit_at, profile, left_out, steps)


def _log_ratio(wanted: EvidenceFit, here: Minimum) -> Tensor:
    """How far log δσ² of each parameter, (K,), is from what the evidence at a fixed θ wants."""
    precision = torch.as_tensor(wanted.prior_precision).double().to(here.theta.device)
    noise = (wanted.noise_std or 1.0) / (here.candidate.noise_std or 1.0)
    change = precision.log() - here.surface.prior_precision.double().log() + 2 * math.log(noise)
    return change.expand(here.surface.size)


def _at_bound(chosen: Candidate, prior: str) -> tuple[str, ...]:
    delta = torch.as_tensor(chosen.prior_precision).double()
    low, high = PRIOR_BOUNDS
    close = (delta < low * math.exp(STEP)) | (delta > high * math.exp(-STEP))
    return ("prior_precision",) if prior != "fixed" and bool(close.any()) else ()
