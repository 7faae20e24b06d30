"""What a run found beside its draws, in a small file of its store, for `dims report`."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dims.sampling.draws import Draws
from dims.sampling.draws.advice import advice_on
from dims.sampling.draws.diversity import measured_diversity
from dims.sampling.evidence_minimum import EvidencePath
from dims.sampling.files import write_text_atomically

if TYPE_CHECKING:
    from dims.sampling.posterior import Posterior

__all__ = ["FINDINGS", "found_by", "found_in", "keep_findings"]

FINDINGS = "findings.json"
DIGITS = 6  # significant; the last ones depend on the number of threads
STEPS = torch.linspace(-3, 3, 13, dtype=torch.float64)  # of the evidence, in decades around δ


def found_in(draws: Draws) -> dict[str, Any]:
    """What draws say of themselves: their weights, how far they disagree, advice.

    Args:
        draws: With their training data, or some of it is left out.

    Returns:
        A dictionary in JSON's types.
    """
    diversity = measured_diversity(draws)
    found: dict[str, Any] = {"draws": len(draws), "advice": advice_on(draws)}
    if diversity is not None:
        found["diversity"] = _plain(diversity._asdict())
    if draws.mixture is not None:
        mixture = draws.mixture
        found["weights"] = _plain(mixture.named_weights(draws.times.tolist()))
        found["held_out"] = mixture.held_out
        found["gain"] = _plain([mixture.gain, mixture.gain_error])
        if mixture.refit:
            found["refit"] = True
    return found


def found_by(posterior: Posterior, draws: Draws) -> dict[str, Any]:
    """The same, with prior and noise and how they were chosen.

    Args:
        posterior: The posterior that sampled them.
        draws: Its draws.

    Returns:
        A dictionary in JSON's types.
    """
    prior = posterior.prior_precision
    shown = prior if isinstance(prior, float) else [float(prior.min()), float(prior.max())]
    return found_in(draws) | {
        "prior": {
            "prior_precision": _plain(shown),
            "noise_std": _plain(posterior.noise_std),
            "log_evidence": _plain(posterior.log_marginal_likelihood),
            "gradient_norm": _plain(posterior.gradient_norm),
            **_choice(posterior),
        }
    }


def keep_findings(
    posterior: Posterior, draws: Draws, store: str | os.PathLike[str]
) -> dict[str, Any]:
    """Write the findings into a store, where they are not yet the same.

    A store that cannot be written to is left as it is: the draws are there, and that is enough.
    """
    found = found_by(posterior, draws)
    path, text = Path(store) / FINDINGS, json.dumps(found, indent=1) + "\n"
    with suppress(OSError, UnicodeDecodeError):
        if not path.is_symlink() and path.is_file() and path.read_text(encoding="utf-8") == text:
            return found
    with suppress(OSError):
        write_text_atomically(path, text)
    return found


def _choice(posterior: Posterior) -> dict[str, Any]:
    """How prior and noise were chosen, and the curve of the evidence."""
    evidence = posterior.evidence
    if evidence is None:
        return {"chosen": "given", "curve": []}
    if isinstance(evidence, EvidencePath):
        curve = [
            {
                "prior_precision": _plain(
                    c.prior_precision
                    if isinstance(c.prior_precision, float)
                    else float(c.prior_precision.mean())
                ),
                "noise_std": _plain(c.noise_std),
                "log_evidence": _plain(c.log_marginal_likelihood),
                "leave_one_out": _plain(c.leave_one_out),
                "gradient_norm": _plain(c.gradient_norm),
                "evaluations": c.evaluations,
                "left_out_points": _plain(c.left_out_points),
                "chosen": c.prior_precision is evidence.prior_precision,
            }
            for c in evidence.candidates
        ]
        left_out = evidence.chosen_by == "leave_one_out"
        return {"chosen": "leave_one_out" if left_out else "minimum", "curve": curve}
    return {"chosen": "given θ*", "curve": _curve(posterior)}


def _curve(posterior: Posterior) -> list[dict[str, Any]]:
    """log p(D) for other priors at the same θ* and noise, where the prior is one number."""
    delta, surface = posterior.prior_precision, posterior.surface
    if not isinstance(delta, float) or delta <= 0:
        return []
    squares = float(posterior.map_parameters.double().square().sum())
    curvature = posterior.curvature.absolute()
    fitted, noise = curvature.noise_std, posterior.noise_std
    scale = 1.0 if fitted is None or noise is None else (fitted / noise) ** 2

    def part(prior: float) -> float:
        """The terms of log p(D) that the prior changes."""
        prior_tensor = torch.tensor(prior).to(posterior.map_parameters.device).double()
        determinant = curvature.log_determinant(prior_tensor, prior_tensor.new_tensor(scale))
        return 0.5 * (surface.size * math.log(prior) - prior * squares - float(determinant))

    chosen = part(delta)
    top = posterior.log_marginal_likelihood
    return [
        {
            "prior_precision": _plain(prior),
            "log_evidence": _plain(top + part(prior) - chosen),
            "chosen": step == 0,
        }
        for step in STEPS.tolist()
        for prior in (delta * 10**step,)
    ]


def _plain(value: Any) -> Any:
    """Numbers with few digits; those that are not finite become None."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
