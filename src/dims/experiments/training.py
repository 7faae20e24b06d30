"""Training as in the paper: Adam with weight decay on dropout networks, dropout off afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from dims.baselines.common import seeded

__all__ = ["Training", "mlp", "train"]


@dataclass(frozen=True)
class Training:
    """How a network is trained; the learning rate and weight decay are the paper's for all."""

    epochs: int
    batch_size: int | None = None  # None: all points at once
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2


def mlp(
    widths: Sequence[int], activation: Callable[[], nn.Module], dropout: float = 0.0
) -> nn.Sequential:
    """Linear layers of the given widths, input and output included; float64."""
    layers: list[nn.Module] = []
    for into, out in pairwise(widths[:-1]):
        layers += [nn.Linear(into, out), activation()]
        if dropout > 0:
            layers.append(nn.Dropout(dropout))
    layers.append(nn.Linear(widths[-2], widths[-1]))
    return nn.Sequential(*layers).double()


def train(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    training: Training,
    seed: int,
    report: Callable[[float], None] | None = None,
) -> nn.Module:
    """Train in place and return the model in eval mode. Global generators are left as they were.

    `report` gets the part that is done.
    """
    with seeded(seed):
        model.train()
        optimiser = torch.optim.Adam(
            model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )
        size = training.batch_size or len(inputs)
        for epoch in range(training.epochs):
            order = torch.randperm(len(inputs)) if size < len(inputs) else torch.arange(len(inputs))
            for rows in order.split(size):
                optimiser.zero_grad()
                loss(model(inputs[rows]), targets[rows]).backward()
                optimiser.step()
            if report is not None and epoch % 100 == 0:
                report(epoch / training.epochs)
    return model.eval()
