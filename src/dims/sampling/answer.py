"""From draws to what they predict: widened, weighed by held-out rows, and noted in their store."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from dims.curvature.full import FullCurvature
from dims.model.shapes import RowVectors
from dims.sampling.draws import Draws
from dims.sampling.draws.mixture import Mixture
from dims.sampling.evidence_minimum import EvidencePath
from dims.sampling.findings import keep_findings
from dims.sampling.samplers import DiMS
from dims.sampling.starts import trained_networks
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
        draws = widened(draws, networks=trained_networks(posterior.surface, posterior.others))
    elif posterior.others:
        draws = _of_several(draws, trained_networks(posterior.surface, posterior.others))
    if posterior.before is None:
        made = weighed(draws, posterior.validation)
    else:
        made = weighed_before(draws, posterior.before, way)
    if store is not None:
        keep_findings(posterior, made, store)
    return made


def _of_several(draws: Draws, networks: RowVectors) -> Draws:
    """Draws that predict alone and know the networks that they started from."""
    weights = torch.zeros(len(draws.times) + 2, dtype=torch.float64)
    weights[-1] = 1.0
    return replace(draws, mixture=Mixture(networks, weights))
