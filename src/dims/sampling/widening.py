"""Draws widened by a Laplace approximation at each of them.

A draw of DiMS is a minimum: it says what fits the data, not how well the data determine it. At
each draw θₛ the linearised Laplace approximation adds that:

    p(y|x) = (1/S)·Σₛ ∫ p(y | f(x, θₛ) + J(x, θₛ)·ε) N(ε; 0, Pₛ⁻¹) dε

with the precision Pₛ of the GGN at θₛ, by a few ε for each draw.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dims.curvature import fit_curvature
from dims.model.shapes import RowVectors, Vector
from dims.sampling.draws import Draws
from dims.sampling.draws.mixture import Mixture, usual_weights
from dims.sampling.perturbations import perturbations
from dims.surface.loss import LossSurface

__all__ = ["widened"]

TANGENTS = 10  # ε for each draw


def widened(
    draws: Draws, count: int = TANGENTS, networks: Vector | RowVectors | None = None
) -> Draws:
    """The draws with a group of widened ones, and weights that need no held-out rows.

    Args:
        draws: Draws on a loss surface.
        count: ε for each of them.
        networks: Trained networks that draws started from; None: that of the surface.
    """
    tangents = _tangents(draws, count)
    trained = draws.surface.initial if networks is None else networks
    mixture = Mixture(trained, usual_weights(draws), tangents=tangents)
    return replace(draws, mixture=mixture)


def _tangents(draws: Draws, count: int) -> Tensor:
    """ε of each draw by the GGN where it is, (S, count, K); they depend on (seed, draw) alone."""
    surface, seed = draws.surface, draws.seed or 0
    assert isinstance(surface, LossSurface)  # of a posterior
    found = []
    for number, theta in enumerate(draws.parameters.to(surface.vector.device)):
        precision = fit_curvature(surface, theta, "full", "ggn").precision_for(surface)
        found.append(perturbations(precision, count, seed, number * count))
    return torch.stack(found)
