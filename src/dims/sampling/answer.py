"""From draws to what they predict: widened, weighed by held-out rows, and noted in their store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dims.curvature.full import FullCurvature
from dims.sampling.draws import Draws
from dims.sampling.evidence_minimum import EvidencePath
from dims.sampling.findings import keep_findings
from dims.sampling.samplers import DiMS
from dims.sampling.weighing import Way, weighed, weighed_before
from dims.sampling.widening import widened

if TYPE_CHECKING:
    from dims.sampling.posterior import Posterior

__all__ = ["answer"]


def answer(
    posterior: Posterior, draws: Draws, way: Way, store: str | os.PathLike[str] | None
) -> Draws:
    """The draws with the `mixture` that `predict` uses.

    They are widened where prior and noise were chosen at minima, for predictions with a Laplace
    approximation there, and the curvature of a draw is at hand: it is full.
    """
    at_minima = isinstance(posterior.evidence, EvidencePath)
    if draws.method == DiMS.name and at_minima and isinstance(posterior.curvature, FullCurvature):
        draws = widened(draws)
    if posterior.before is None:
        made = weighed(draws, posterior.validation)
    else:
        made = weighed_before(draws, posterior.before, way)
    if store is not None:
        keep_findings(posterior, made, store)
    return made
