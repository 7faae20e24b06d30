"""Candidates for prior and noise one after the other: which come next, and when it is enough."""

from __future__ import annotations

import math
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
from dims.sampling.evidence_choice import STEP, value_of, vertex
from dims.sampling.evidence_minimum import Minimum, minimum_of
from dims.sampling.gauss_newton import MOST_STEPS as WALK_STEPS
from dims.sampling.gauss_newton import FitAt
from dims.sampling.left_out import LeftOut, needs_check
from dims.surface.loss import LossSurface

__all__ = ["Search"]

FALL = 3.0  # nats below the best at which a side of the grid has been seen
MOST_STEPS = 12  # candidates on each side
POLISHES = 2  # parabolas through the best three of the evidence
FEW_STEPS = 25  # of a walk to a candidate, where it need not be compared to a tenth of a nat
MOST_CURVATURES = 300  # of a scan: where data have next to no noise, it would go on for hours
LONGEST_GROUP_STEP = math.log(10)  # of a round in the log δ of a layer
ROUNDS = 6  # of layers or tensors
ENOUGH = 0.1  # nats: what another round must gain


class Search:
    """Candidates by their place: log δ, or log λ = log δσ² where σ is open."""

    def __init__(
        self,
        surface: LossSurface,
        theta: Vector,
        fit_at: FitAt,
        prior: str,
        tune_noise: bool,
        score: str,
        cautious: bool,
    ) -> None:
        check_structure(prior)
        self.surface, self.prior, self.curvatures = surface, prior, 0
        self._fit_at = fit_at
        self.score, self.by_leaving_out = score, score == "leave_one_out"
        self.open_prior = prior != "fixed"
        self.open_noise = tune_noise and surface.likelihood.noise_std is not None
        self.refuted = False
        self.left_out: LeftOut | None = None
        if cautious and self.by_leaving_out and self.is_open and needs_check(surface):
            self.left_out = LeftOut(surface, theta, self.fit_at, FEW_STEPS)

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
        if self.by_leaving_out:
            return self._outwards(self._strong_place(theta), theta)
        origin = self._tuned_place(theta)
        minima = self._outwards(origin, theta)
        if self.open_prior and self._best(minima) < self._of_no_weights():
            # Weights that have learned few points by heart are near maxima that explain nothing.
            origin = self._strong_place(theta)
            minima |= self._outwards(origin, theta)
        for _ in range(POLISHES):
            top = vertex(minima, self.score)
            if top is None or self.is_spent:
                break
            inner = [p for p in minima if 0 <= (p - origin) / (top - origin) <= 1]
            nearest = minima[max(inner, key=lambda p: abs(p - origin))]
            minima[top] = self._next(top, nearest, theta)
        return minima

    def _outwards(self, origin: float, theta: Vector) -> dict[float, Minimum]:
        """From a place to weaker and to stronger priors until the score has fallen on each side."""
        minima = {origin: self._at(origin, theta, self.surface.likelihood.noise_std)}
        for side in (-STEP, STEP):
            for number in range(1, MOST_STEPS + 1):
                before, place = origin + side * (number - 1), origin + side * number
                nearest = minima[before]
                fallen = value_of(nearest, self.score) < self._best(minima) - FALL
                seen = fallen or self.is_spent
                if seen or not self._within(place, nearest):
                    break
                if side < 0 and self._is_refuted(before, nearest):
                    break
                minima[place] = self._next(place, nearest, theta)
        return minima

    def _best(self, minima: dict[float, Minimum]) -> float:
        return max(value_of(minimum, self.score) for minimum in minima.values())

    def _of_no_weights(self) -> float:
        """log p(D) where all weights are zero: the evidence of ever stronger priors."""
        surface, sigma = self.surface, self.surface.likelihood.noise_std
        (misfit,) = self._misfits(torch.zeros_like(surface.initial))
        targets = surface.effective_points * surface.outputs
        if self.open_noise and sigma is not None:  # at its best, and no smaller than it may be
            ratio = max(2 * misfit / targets, (NOISE_BOUNDS[0] / sigma) ** 2)
            misfit = misfit / ratio + 0.5 * targets * math.log(ratio)
        return -misfit - surface.effective_points * surface.likelihood.constant(surface.outputs)

    def _misfits(self, *thetas: Vector) -> list[float]:
        """L without the prior, in nats."""
        bare = self.surface.with_settings(prior_precision=0.0)
        return (bare.value(torch.stack(thetas)) / self.surface.loss_scale).tolist()

    def _is_refuted(self, place: float, minimum: Minimum) -> bool:
        """Whether points that are really left out say that this prior is too weak already."""
        self.refuted = self.left_out is not None and self.left_out.refutes(place, minimum)
        return self.refuted

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
        none, here = self._misfits(torch.zeros_like(theta), theta)
        square = float(theta.double() @ theta.double())
        worth = 2 * (none - here)
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
