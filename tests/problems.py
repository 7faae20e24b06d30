"""Surfaces that many tests share, from closed forms to the Snelson network."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import dims
from dims_paper.datasets.locate import DataNotFoundError
from dims_paper.snelson_network import load_problem


def sphere() -> dims.Surface:
    """Minima: the unit sphere."""
    return dims.Surface(lambda theta: (theta.square().sum() - 1).square())


def ring() -> dims.Surface:
    """A ring of minima in the plane whose floor is not level: steeper on one side."""
    return dims.Surface(lambda theta: (theta.square().sum() - 1).square() * (2 + theta[0]).square())


def deep_linear() -> dims.Surface:
    """f(x) = w₃w₂w₁x on y = x: minima are the surface w₃w₂w₁ = 1, not compact."""
    return dims.Surface(lambda theta: 4 * (theta.prod() - 1).square())


def two_basins() -> dims.Surface:
    """A double well in θ₁, one well twice as deep, with a gentle bowl in θ₂."""

    def loss(theta: Tensor) -> Tensor:
        well = (theta[0].square() - 1).square() + 0.25 * theta[0]
        return well + 0.5 * theta[1].square()

    return dims.Surface(loss)


def snelson(
    dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> tuple[dims.LossSurface, Tensor]:
    """The trained Snelson network's loss without the gap, and the velocities' factor."""
    try:
        problem = load_problem(dtype, device)
    except DataNotFoundError as error:
        pytest.fail(str(error))
    return problem.surface, problem.factor


def snelson_velocities(factor: Tensor, rows: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 593, generator=generator, dtype=torch.float64) @ factor
