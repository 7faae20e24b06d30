"""A posterior that every machine builds bit for bit, and the runs that are kept in tests/fixtures.

The weights come from a file, the data are sums of powers of two, and the curvature is a diagonal
whose square roots are exact. So the fingerprints in a manifest are the same everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

import dims
from dims.curvature.diagonal import DiagonalCurvature

FIXTURES = Path(__file__).parents[1] / "fixtures"
WEIGHTS = FIXTURES / "weights.safetensors"
DRAWS, CHUNK = 5, 3

# What `posterior.sample` was told, by the name of the fixture; `settle` is set by each caller.
RUNS: dict[str, dict[str, Any]] = {
    "finished": {"friction": 0.5, "max_time": 0.5, "seed": 3},
    "unsettled": {"friction": 0.5, "max_time": 0.5, "seed": 4, "certify": False},
    "interrupted": {"friction": 0.25, "max_time": 2.0, "seed": 5, "certify": False},
}


class Stop:
    """Stops a run at a given report of its progress, and counts the reports."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def __call__(self, now: object) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise KeyboardInterrupt


def network() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    if WEIGHTS.exists():
        model.load_state_dict(load_file(WEIGHTS))
    return model


def data() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.arange(-6, 7, dtype=torch.float64).unsqueeze(-1) / 4
    return inputs, inputs - inputs**3 / 4


def posterior(model: nn.Module | None = None) -> dims.Posterior:
    fitted = dims.fit(
        network() if model is None else model,
        data(),
        "regression",
        curvature="diagonal",
        tune=False,
        prior_precision=0.25,
        noise_std=0.5,
    )
    surface = fitted.surface
    curved = DiagonalCurvature(surface, torch.full((surface.size,), 3.75).double(), True)
    return replace(fitted, curvature=curved)
