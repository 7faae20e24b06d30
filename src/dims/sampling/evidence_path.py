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
towards a prior that is too strong, so the cautious choice is the stronger of both, or a still
stronger one whose leave-one-out score is not worse by more than a standard error.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable

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
from dims.sampling.evidence_choice import STEP, best_place, chosen, deciding, value_of, vertex
from dims.sampling.evidence_minimum import Candidate, EvidencePath, Minimum, minimum_of
from dims.sampling.gauss_newton import MOST_STEPS as WALK_STEPS
from dims.sampling.gauss_newton import FitAt
from dims.surface.loss import LossSurface

__all__ = ["tune_at_minima"]

FALL = 3.0  # nats below the best at which a side of the grid has been seen
MOST_STEPS = 12  # candidates on each side
POLISHES = 2  # parabolas through the best three of the evidence
FEW_STEPS = 25  # of a walk to a candidate, where it need not be compared to a tenth of a nat
LONGEST_GROUP_STEP = math.log(10)  # of a round in the log δ of a layer
ROUNDS = 6  # of layers or tensors
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

    The search goes from a strong prior to weaker ones; each candidate starts from θ*. It ends 3
    nats below the best. Groups ("layer", "tensor")
    start from the scalar choice and climb by what the evidence at their minimum wants next.

    Args:
        surface: The loss surface with its likelihood.
        theta: θ*, (K,).
        fit_at: The curvature of a surface at a point.
        prior: "scalar", "layer", "tensor", or "fixed".
        tune_noise: Whether σ is open.
        scores: What candidates are compared by, fields of `Candidate`; of several that one
            decides whose best candidate has the strongest prior, and one standard error is given
            away for a stronger one.

    Returns:
        The search with its curve, and the best candidate with its minimum.
    """
    began = time.perf_counter()
    search = _Search(surface, fit_at, prior, tune_noise, scores)
    places = search.scan(theta)
    score, place = deciding(places, scores), chosen(places, scores)
    best = places[place]
    minima = [places[place] for place in sorted(places)]
    converged = min(places) < place < max(places)
    if prior in ("layer", "tensor"):
        groups = search.groups(best, score)
        best, minima = groups[-1], [*minima, *groups[1:]]
    candidates = tuple(minimum.candidate for minimum in minima)
    winner = best.candidate
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
        """From a strong prior to weaker ones, then up again if the first is the best.

        Every candidate starts from θ*: from the minimum of a weaker prior a walk keeps what that
        one has learnt by heart, and from that of a stronger one it keeps hidden units that are 0.
        """
        origin, sigma = self._strong_place(theta), self.surface.likelihood.noise_std
        minima: dict[float, Minimum] = {}
        for side in (-STEP, STEP):
            for number in range(1, MOST_STEPS + 1) if minima else range(MOST_STEPS + 1):
                place = origin + side * number
                if not self._within(place, sigma):
                    break
                minima[place] = self._at(place, theta, sigma)
                sigma = minima[place].candidate.noise_std
                if self._passed(minima, place, any if side < 0 else all):
                    break
            if all(best_place(minima, score) < origin for score in self.scores):
                break
        for _ in range(0 if self.by_leaving_out else POLISHES):
            top = vertex(minima, deciding(minima, self.scores))
            if top is None:
                break
            minima[top] = self._at(top, theta, sigma)
        return minima

    def _passed(
        self, minima: dict[float, Minimum], place: float, scores: Callable[[Iterable[bool]], bool]
    ) -> bool:
        """Whether scores have fallen: all towards strong priors, any towards weak ones.

        The score that wants the strongest prior decides, whatever others want below its own best.
        """
        return scores(
            value_of(minima[place], score) < max(value_of(m, score) for m in minima.values()) - FALL
            for score in self.scores
        )

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

    def _tuned(
        self, surface: LossSurface, theta: Vector, curvature: Curvature, prior: str
    ) -> EvidenceFit:
        with warnings.catch_warnings():  # it is a start, not the answer
            warnings.simplefilter("ignore", EvidenceWarning)
            return tune_evidence(surface, theta, curvature, prior=prior, tune_noise=self.open_noise)

    def _within(self, place: float, sigma: float | None) -> bool:
        """Whether δ and σ of a place are inside their bounds."""
        delta, sigma = self._values(place, sigma)
        fits = sigma is None or NOISE_BOUNDS[0] <= sigma <= NOISE_BOUNDS[1]
        inside = bool((delta >= PRIOR_BOUNDS[0]).all() and (delta <= PRIOR_BOUNDS[1]).all())
        return fits and (inside or not self.open_prior)

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
