"""The problem that all solvers are timed on: the Snelson network, K = 593, 148 points."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import dims
from dims.model.training import perceptron
from dims_paper.datasets.snelson import load_snelson

TRAINED = Path(__file__).parent / "snelson_map.safetensors"
GAP = (1.5, 3.0)


class SnelsonProblem(NamedTuple):
    """A trained network's loss, and the factor that colours start velocities.

    Σ^½ = P^(−½) of the Gauss–Newton precision, formed densely: the tests' oracle too.
    """

    surface: dims.LossSurface
    factor: Tensor
    noise: float
    prior: float

    def velocities(self, rows: int, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        size = len(self.factor)
        colourless = torch.randn(rows, size, generator=generator, dtype=torch.float64)
        vector = self.surface.vector
        return (colourless @ self.factor).to(vector.device, vector.dtype)


def load_problem(dtype: torch.dtype = torch.float64, device: str = "cpu") -> SnelsonProblem:
    """The network at its minimum of the loss without the gap, tuned by the evidence."""
    saved = load_file(TRAINED)
    noise, prior = float(saved["noise_std"]), float(saved["prior_precision"])
    data = load_snelson(gap=GAP)
    points = (data.train_inputs, data.train_targets)
    model = perceptron((1, 16, 16, 16, 1), nn.GELU)
    nn.utils.vector_to_parameters(saved["theta"], model.parameters())
    exact = dims.LossSurface(model, points, dims.Gaussian(noise), prior)

    def outputs(theta: Tensor) -> Tensor:
        return exact.network(exact.vector.unflatten(theta), data.train_inputs).squeeze(-1)

    jacobian = torch.func.jacrev(outputs)(saved["theta"])
    identity = torch.eye(exact.size, dtype=torch.float64)
    precision = jacobian.T @ jacobian / noise**2 + prior * identity
    factor = torch.linalg.inv(torch.linalg.cholesky(precision))
    if dtype == torch.float64 and device == "cpu":
        return SnelsonProblem(exact, factor, noise, prior)
    surface = dims.LossSurface(model.to(device, dtype), points, dims.Gaussian(noise), prior)
    return SnelsonProblem(surface, factor, noise, prior)
