"""The evidence at the minimum of each candidate: prior and noise chosen where draws will live.

`tune_evidence` keeps θ where training stopped. A prior that suits an early-stopped θ* may be far
too weak for its own minimum. Here the prior precision δ takes the values of a grid, θ follows to
the minimum of each, and the Laplace evidence is compared at these minima:

    θ(δ) = argmin L(θ; δ),     δ̂ = argmax log p(D | θ(δ), δ)

With an open Gaussian noise σ the grid is in λ = δσ²: θ(λ) depends on λ alone, and at a fixed λ

    σ² = (Σ‖y − f‖² + λ‖θ‖²) / (number of targets)

maximises the evidence exactly, so the search has one dimension either way.

The evidence of small classifiers prefers priors so weak that their minima overfit, and
leave-one-out scores (`leave_one_out`) do so on small regression sets. Neither was seen to err
towards a prior that is too strong, so the cautious choice is the stronger of both.
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
from dims.sampling.evidence_minimum import Candidate, EvidencePath, Minimum, finished, minimum_of
from dims.sampling.gauss_newton import MOST_STEPS as WALK_STEPS
from dims.sampling.gauss_newton import FitAt
from dims.surface.loss import LossSurface

__all__ = ["tune_at_minima"]

STEP = 0.5 * math.log(10)  # of the grid in log δ
FALL = 3.0  # nats below the best at which a side of the grid has been seen
MOST_STEPS = 8  # candidates on each side
POLISHES = 2  # parabolas through the best three; one where scores are costlier than exact
FEW_STEPS = 25  # of a walk to a candidate, where it need not be compared to a tenth of a nat
LONGEST_GROUP_STEP = math.log(10)  # of a round in the log δ of a layer
ROUNDS = 6  # of layers or tensors
NEAR = 0.02  # steps of the grid: a parabola's top this near to a candidate is not worth a walk
ENOUGH = 0.1  # nats: what another round must gain


def tune_at_minima(
    surface: LossSurface,
    theta: Vector,
    fit_at: FitAt,
    prior: str,
    tune_noise: bool,
    scores: tuple[str, ...] = ("log_marginal_likelihood",),
) -> tuple[EvidencePath, Minimum]:
    """Choose prior precision and noise by a score at the minimum of each candidate.

    The search starts from the evidence at θ* and goes outwards; each candidate starts from its
    neighbour on the side of θ*. A side ends 3 nats below the best. Groups ("layer", "tensor")
    start from the scalar choice and climb by what the evidence at their minimum wants next.

    Args:
        surface: The loss surface with its likelihood.
        theta: θ*, (K,).
        fit_at: The curvature of a surface at a point.
        prior: "scalar", "layer", "tensor", or "fixed".
        tune_noise: Whether σ is open.
        scores: What candidates are compared by, fields of `Candidate`; of several that one
            decides whose best candidate has the strongest prior.

    Returns:
        The search with its curve, and the best candidate with its minimum.
    """
    began = time.perf_counter()
    search = _Search(surface, fit_at, prior, tune_noise, scores)
    places = search.scan(theta)
    score = deciding(places, scores)
    best_place = _best(places, score)
    best = places[best_place]
    minima = [places[place] for place in sorted(places)]
    converged = min(places) < best_place < max(places)
    if prior in ("layer", "tensor"):
        groups = search.groups(best, score)
        best, minima = groups[-1], [*minima, *groups[1:]]
    candidates = tuple(minimum.candidate for minimum in minima)
    best = finished(best, fit_at)
    chosen = best.candidate
    path = EvidencePath(
        chosen.prior_precision,
        chosen.noise_std,
        chosen.log_marginal_likelihood,
        converged,
        _at_bound(chosen, prior),
        len(candidates),
        candidates,
        time.perf_counter() - began,
        score,
    )
    if not converged:
        warnings.warn(
            "evidence: its maximum lies at an end of the grid of prior precisions; the data do not "
            "determine it. Give one, such as dims.fit(..., prior_precision=1.0)",
            EvidenceWarning,
            stacklevel=5,  # the caller of `fit`
        )
    return path, best


class _Search:
    """Candidates by their place: log δ, or log λ = log δσ² where σ is open."""

    def __init__(
        self,
        surface: LossSurface,
        fit_at: FitAt,
        prior: str,
        tune_noise: bool,
        scores: tuple[str, ...],
    ) -> None:
        check_structure(prior)
        self.surface, self.fit_at, self.prior = surface, fit_at, prior
        self.scores = scores
        self.by_leaving_out = "leave_one_out" in scores
        self.open_prior = prior != "fixed"
        self.open_noise = tune_noise and surface.likelihood.noise_std is not None

    def scan(self, theta: Vector) -> dict[float, Minimum]:
        """The grid on both sides of the start, then parabolas through the best three."""
        origin = self._first_place(theta)
        minima = {origin: self._at(origin, theta, self.surface.likelihood.noise_std)}
        for side in (STEP, -STEP):
            for number in range(1, MOST_STEPS + 1):
                place, nearest = origin + side * number, minima[origin + side * (number - 1)]
                if self._seen(minima, nearest, side) or not self._within(place, nearest):
                    break
                minima[place] = self._next(place, nearest)
        for _ in range(1 if self.by_leaving_out else POLISHES):
            top = _vertex(minima, deciding(minima, self.scores))
            if top is None:
                break
            inner = [p for p in minima if 0 <= (p - origin) / (top - origin) <= 1]
            minima[top] = self._next(top, minima[max(inner, key=lambda p: abs(p - origin))])
        return minima

    def _seen(self, minima: dict[float, Minimum], nearest: Minimum, side: float) -> bool:
        """Whether a side has fallen far enough: the strong one by all scores, the weak by any."""
        falls = [
            _value(nearest, score) < max(_value(m, score) for m in minima.values()) - FALL
            for score in self.scores
        ]
        return all(falls) if side > 0 else any(falls)

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
                gain = _value(trial, score) - _value(here, score)
                if gain > 0:
                    found.append(trial)
                    break
                share *= 0.5
            if gain < ENOUGH:
                break
        return found

    def _first_place(self, theta: Vector) -> float:
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

    def _next(self, place: float, nearest: Minimum) -> Minimum:
        return self._at(place, nearest.theta, nearest.candidate.noise_std)

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
        profile = self.open_prior and self.open_noise
        fit_at, left_out = self.fit_at, self.by_leaving_out
        steps = FEW_STEPS if left_out else WALK_STEPS
        return minimum_of(self.surface, theta, delta, sigma, fit_at, profile, left_out, steps)


def deciding(minima: dict[float, Minimum], scores: tuple[str, ...]) -> str:
    """The score whose best candidate has the strongest prior."""
    return max(scores, key=lambda score: _best(minima, score))


def _best(minima: dict[float, Minimum], score: str) -> float:
    return max(minima, key=lambda place: _value(minima[place], score))


def _value(minimum: Minimum, score: str) -> float:
    return float(getattr(minimum.candidate, score))


def _vertex(minima: dict[float, Minimum], score: str) -> float | None:
    """The top of the parabola through the best place and its neighbours; None at an end."""
    places = sorted(minima)
    values = {place: _value(minima[place], score) for place in places}
    middle = max(range(len(places)), key=lambda i: values[places[i]])
    if not 0 < middle < len(places) - 1:
        return None
    (a, b, c) = places[middle - 1 : middle + 2]
    left, right = values[a] - values[b], values[c] - values[b]
    slope_left, slope_right = left / (a - b), right / (c - b)
    bend = (slope_right - slope_left) / (c - a)
    if not bend < 0:
        return None
    top = b - 0.5 * (slope_left - bend * (a - b)) / bend
    closest = min(abs(top - place) for place in places)
    return top if a < top < c and closest > NEAR * STEP else None


def _log_ratio(wanted: EvidenceFit, here: Minimum) -> Tensor:
    """How far log δσ² of each parameter is from what the evidence at a fixed θ wants, (K,)."""
    precision = torch.as_tensor(wanted.prior_precision).double().to(here.theta.device)
    noise = (wanted.noise_std or 1.0) / (here.candidate.noise_std or 1.0)
    change = precision.log() - here.surface.prior_precision.double().log() + 2 * math.log(noise)
    return change.expand(here.surface.size)


def _at_bound(chosen: Candidate, prior: str) -> tuple[str, ...]:
    delta = torch.as_tensor(chosen.prior_precision).double()
    low, high = PRIOR_BOUNDS
    close = (delta < low * math.exp(STEP)) | (delta > high * math.exp(-STEP))
    return ("prior_precision",) if prior != "fixed" and bool(close.any()) else ()
