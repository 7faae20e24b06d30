"""What the examples share: command-line options and training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def options(description: str) -> dict[str, Any]:
    """Parse `--quick` and `--out`, the arguments of each example's `main`."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, with rough results")
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="output folder")
    return vars(parser.parse_args())


def minimise_squares(model: nn.Module, inputs: Any, targets: Tensor, epochs: int) -> nn.Module:
    """Train in place with Adam on the mean squared error."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        optimiser.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        optimiser.step()
    return model
