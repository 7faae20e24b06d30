"""A report on a posterior for a person: model, prior and noise, how they were chosen, θ*."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

from dims.curvature.evidence import EvidenceFit
from dims.sampling.draws.advice import counted
from dims.sampling.evidence_minimum import Candidate, EvidencePath

if TYPE_CHECKING:
    from dims.sampling.posterior import Posterior

__all__ = ["summarise_posterior"]


def summarise_posterior(posterior: Posterior) -> str:
    """One paragraph each: what it is, what was chosen and how, the curve of the evidence."""
    surface = posterior.surface
    size, points = f"{surface.size:,} parameters", counted(surface.points, "training point")
    chosen = f"prior precision {_shown(posterior.prior_precision)}"
    if posterior.noise_std is not None:
        chosen += f", noise {posterior.noise_std:.4g}"
    slope = f"gradient norm {posterior.gradient_norm:.3g} at θ*"
    blocks = [
        [f"posterior of {size}, {points}, {surface.likelihood}", *_starts(posterior)],
        [chosen, f"log evidence {posterior.log_marginal_likelihood:.2f}, {slope}"],
        _choice(posterior.evidence),
        _held_out(posterior),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _choice(evidence: EvidenceFit | None) -> list[str]:
    if evidence is None:
        return ["prior and noise are as given"]
    if not isinstance(evidence, EvidencePath):
        return ['tuned at the given θ*; tune="cautious" compares candidates at their own minima']
    title = f"{'prior precision':>16}{'noise':>10}{'log evidence':>14}{'leave one out':>15}"
    title += f"{'gradient':>10}{'cost':>8}"
    rows = [
        _row(c) + ("  chosen" if c.prior_precision is evidence.prior_precision else "")
        for c in evidence.candidates
    ]
    number = counted(len(evidence.candidates), "candidate")
    cost = f"{evidence.evaluations:,} gradients and products, {evidence.seconds:.1f} s"
    return [f"tuned at the minimum of each of {number} ({cost}):", title, *rows]


def _starts(posterior: Posterior) -> list[str]:
    if not posterior.others:
        return []
    return [f"draws start from {len(posterior.others) + 1} networks in turn; θ* is the first one's"]


def _held_out(posterior: Posterior) -> list[str]:
    if posterior.before is not None:
        return [*_held_out(posterior.before), "and have been learnt since, with the same prior"]
    if posterior.validation is None:
        return ["no held-out rows: dims.fit(..., validation=(x, y)) weighs network and draws"]
    rows = counted(len(posterior.validation.targets), "held-out row")
    return [f"{rows} will weigh the network and the times of draws"]


def _row(candidate: Candidate) -> str:
    noise = "" if candidate.noise_std is None else f"{candidate.noise_std:.4g}"
    prior = candidate.prior_precision
    shown = f"{prior:.4g}" if isinstance(prior, float) else f"mean {prior.mean():.4g}"
    left_out = "" if math.isnan(candidate.leave_one_out) else f"{candidate.leave_one_out:.2f}"
    scores = f"{candidate.log_marginal_likelihood:>14.2f}{left_out:>15}"
    slope = f"{candidate.gradient_norm:.2g}"
    unseen = candidate.left_out_points
    checked = "" if math.isnan(unseen) else f"  {unseen:.3f} a left-out point"
    return f"{shown:>16}{noise:>10}{scores}{slope:>10}{candidate.evaluations:>8}{checked}"


def _shown(prior: float | Tensor) -> str:
    if isinstance(prior, float):
        return f"{prior:.4g}"
    values = sorted(set(prior.tolist()))
    if len(values) <= 8:
        return "of groups " + ", ".join(f"{value:.4g}" for value in values)
    return f"a vector from {values[0]:.4g} to {values[-1]:.4g}"
