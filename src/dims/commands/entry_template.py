"""The input of `dims sample`: a trained network, its training data and its likelihood.

dims sample my_run.py:problem --store runs/first --draws 100
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

WEIGHTS = Path(__file__).with_suffix(".pt")
torch.set_num_threads(1)  # for a network as small as this one; remove it for a large one


def problem() -> tuple[nn.Module, tuple[Tensor, Tensor], str]:
    """Return network, data and likelihood; replace them with your own.

    The likelihood is "regression" or "classification". `dims sample` calls this function at the
    start and whenever it continues a run. It must return the same network each time, so it trains
    once and keeps the weights.
    """
    inputs = torch.linspace(-1, 1, 40).unsqueeze(-1)
    targets = torch.sin(3 * inputs) + 0.1 * torch.cos(20 * inputs)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    if WEIGHTS.exists():
        model.load_state_dict(torch.load(WEIGHTS, weights_only=True))
    else:
        train(model, inputs, targets)
        torch.save(model.state_dict(), WEIGHTS)
    return model, (inputs, targets), "regression"


def train(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    """Minimise the squared error."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(1000):
        optimiser.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        optimiser.step()
