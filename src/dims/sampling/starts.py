"""Several trained networks of one architecture: draws start from the minimum of each in turn.

A particle stays in the valley of the loss where it starts, so that the draws of one network know
one valley; networks trained from other first weights lie in others. Draw i of M networks starts at
the minimum of network i mod M, under the prior and noise that were chosen for the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from dims.curvature import Curvature, Precision
from dims.model.shapes import RowVectors, Vector
from dims.sampling.draws.fields import LINEARISED_METHODS
from dims.sampling.evidence_minimum import EvidencePath
from dims.sampling.gauss_newton import FitAt, walk_down
from dims.sampling.refine import refine as walk_to_minimum
from dims.sampling.samplers import Sampler, Start
from dims.surface.loss import LossSurface
from dims.surface.members import flatten_member

if TYPE_CHECKING:
    from dims.sampling.posterior import Posterior

__all__ = ["OtherStart", "at_minimum_of", "minima", "starts_of", "trained_networks"]
__all__ += ["with_others"]


@dataclass(frozen=True, eq=False)
class OtherStart:
    """What a posterior knows of each network but the first.

    Attributes:
        network: Its trained parameters, (K,).
        map_parameters: Where its draws start, (K,).
        curvature: The curvature of the likelihood there.
        gradient: The gradient of the surface there, (K,).
    """

    network: Vector
    map_parameters: Vector
    curvature: Curvature
    gradient: Vector


def with_others(
    posterior: Posterior, networks: Sequence[nn.Module], fit_at: FitAt, refine: int
) -> Posterior:
    """The posterior with the starts of more networks, which go as far as the first one did.

    Args:
        posterior: Of the first network.
        networks: The others.
        fit_at: The curvature of a surface at a point.
        refine: Most gradients of a walk, where one was asked for.

    Raises:
        ValueError: They differ from the first in more than their weights.
    """
    surface = posterior.surface
    thetas = [flatten_member(network, i, surface) for i, network in enumerate(networks, start=1)]
    others = tuple(_other_start(posterior, theta, fit_at, refine) for theta in thetas)
    return replace(posterior, others=others)


def _other_start(posterior: Posterior, network: Vector, fit_at: FitAt, refine: int) -> OtherStart:
    surface = posterior.surface
    if isinstance(posterior.evidence, EvidencePath):
        return at_minimum_of(surface, network, network, fit_at)
    theta = network
    if refine:
        theta = walk_to_minimum(surface, network, refine, False).positions[0]
    return OtherStart(network, theta, fit_at(surface, theta), _gradient(surface, theta))


def at_minimum_of(
    surface: LossSurface, network: Vector, theta: Vector, fit_at: FitAt
) -> OtherStart:
    """The start of a network at the minimum below θ."""
    walk = walk_down(surface, theta, fit_at)
    return OtherStart(network, walk.theta, walk.curvature, _gradient(surface, walk.theta))


def trained_networks(surface: LossSurface, others: Iterable[OtherStart]) -> Vector | RowVectors:
    """Parameters of the trained network, (K,), or of all of them, (M, K)."""
    rows = [surface.initial, *(other.network for other in others)]
    return torch.stack(rows) if len(rows) > 1 else rows[0]


def starts_of(posterior: Posterior, sampler: Sampler) -> tuple[tuple[Start, Precision], ...]:
    """Where the draws of the other networks start, and the precision of their perturbations.

    Raises:
        ValueError: The sampler reads draws at one θ* only.
    """
    if posterior.others and sampler.name in LINEARISED_METHODS:
        raise ValueError(
            f"method: {sampler.name!r} reads draws by the network linearised at one θ*; fit one "
            "network, or take another method"
        )
    surface = posterior.surface
    return tuple(
        (
            Start(surface, other.map_parameters, other.gradient),
            other.curvature.precision_for(surface),
        )
        for other in posterior.others
    )


def minima(posterior: Posterior) -> Vector | RowVectors:
    """Where draws start: θ*, (K,), or one for each network, (M, K)."""
    rows = [posterior.map_parameters, *(other.map_parameters for other in posterior.others)]
    return torch.stack(rows) if len(rows) > 1 else rows[0]


def _gradient(surface: LossSurface, theta: Vector) -> Vector:
    return surface.value_and_grad(theta.unsqueeze(0))[1][0]
