"""Surfaces that many tests share, from closed forms to the Snelson network."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import dims
from dims.data import DataNotFoundError, load_snelson

FIXTURES = Path(__file__).parent / "fixtures"


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


def snelson_network(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """1-16-16-16-1 with GELU, K = 593."""
    return nn.Sequential(
        nn.Linear(1, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(),
        nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 1),
    ).to(dtype)  # fmt: skip


def snelson(
    dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> tuple[dims.LossSurface, Tensor]:
    """The trained Snelson network's loss without the gap, and the factor that colours velocities.

    Σ^½ = P^(−½) of the Gauss–Newton precision, formed densely here: an oracle of its own.
    """
    saved = load_file(FIXTURES / "snelson_map.safetensors")
    try:
        data = load_snelson(gap=(1.5, 3.0))
    except DataNotFoundError as error:
        pytest.fail(str(error))
    model = snelson_network(torch.float64)
    nn.utils.vector_to_parameters(saved["theta"], model.parameters())
    noise, prior = float(saved["noise_std"]), float(saved["prior_precision"])

    def outputs(theta: Tensor) -> Tensor:
        pieces = exact.vector.unflatten(theta)
        return exact.network(pieces, data.train_inputs).squeeze(-1)

    exact = dims.LossSurface(
        model, (data.train_inputs, data.train_targets), dims.Gaussian(noise), prior
    )
    jacobian = torch.func.jacrev(outputs)(saved["theta"])
    precision = jacobian.T @ jacobian / noise**2 + prior * torch.eye(593, dtype=torch.float64)
    factor = torch.linalg.inv(torch.linalg.cholesky(precision))
    if dtype == torch.float64 and device == "cpu":
        return exact, factor
    surface = dims.LossSurface(
        model.to(device, dtype),
        (data.train_inputs, data.train_targets),
        dims.Gaussian(noise),
        prior,
    )
    return surface, factor


def snelson_velocities(factor: Tensor, rows: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 593, generator=generator, dtype=torch.float64) @ factor
