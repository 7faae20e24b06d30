"""Start velocities of a chosen energy."""

from __future__ import annotations

import torch
from torch import Tensor

import dims
from dims.curvature import fit_curvature


def start_velocities(
    surface: dims.LossSurface, theta: Tensor, draws: int, rank: int, energy: float, seed: int
) -> Tensor:
    """ε of a Laplace posterior, scaled so that its mean kinetic energy ½ε² is `energy`.

    A posterior of hundreds of thousands of weights starts with as many half nats, many times what
    the loss of all images can take up.
    """
    curvature = fit_curvature(surface, theta, "low_rank", rank=rank, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(draws, len(theta), generator=generator).to(theta)
    spread = curvature.precision_for(surface).color(noise)
    mean = 0.5 * spread.square().sum(-1).mean()
    return ((energy / mean) ** 0.5 * spread).to(theta)
