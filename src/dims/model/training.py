"""Multilayer perceptrons and their training: the one builder and the one loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn

__all__ = ["Loss", "Training", "perceptron", "seeded", "train"]

Loss = Callable[[Tensor, Tensor], Tensor]


def perceptron(
    widths: Sequence[int],
    activation: Callable[[], nn.Module],
    dropout: float = 0.0,
    *,
    dtype: torch.dtype = torch.float64,
    generator: Generator | None = None,
) -> nn.Sequential:
    """Linear layers with the activation, and dropout, between them.

    Args:
        widths: Widths of the layers, input and output included.
        activation: The class of the activation, such as `nn.Tanh`.
        dropout: Probability to drop a hidden unit in training; 0 adds no such layers.
        dtype: Precision of the weights.
        generator: Draws the first weights in `dtype`. None: torch draws them in its default
            precision from its global generator, and they are converted.

    Returns:
        The network, with torch's own distribution of first weights.
    """
    layers: list[nn.Module] = []
    for into, out in pairwise(widths):
        if layers:
            layers += [activation(), nn.Dropout(dropout)] if dropout > 0 else [activation()]
        layers.append(_linear(into, out, generator, dtype))
    return nn.Sequential(*layers).to(dtype)


def _linear(into: int, out: int, generator: Generator | None, dtype: torch.dtype) -> nn.Linear:
    if generator is None:
        return nn.Linear(into, out)
    linear = nn.utils.skip_init(nn.Linear, into, out, dtype=dtype)
    bound = 1 / math.sqrt(into)
    for parameter in linear.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return linear


@dataclass(frozen=True)
class Training:
    """How a network is trained by Adam."""

    epochs: int
    batch_size: int | None = None  # None: all points at once
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    cosine: bool = False  # the learning rate falls to 0 along half a cosine

    def batches(
        self,
        points: int,
        generators: Sequence[Generator | None] = (None,),
        report: Callable[[float], None] | None = None,
    ) -> Iterator[tuple[float, Tensor]]:
        """The part of the training that is done, and the points of each step.

        Args:
            points: Number of training points.
            generators: What shuffles the points of each network; None is torch's global generator.
            report: Called with the part that is done, about a hundred times.

        Yields:
            The part from 0 to 1, and the numbers of the points, (networks, batch).
        """
        size = self.batch_size or points
        order = torch.arange(points).expand(len(generators), -1)
        for epoch in range(self.epochs):
            if size < points:
                order = torch.stack([torch.randperm(points, generator=g) for g in generators])
            batches = order.split(size, dim=1)
            for number, rows in enumerate(batches):
                yield (epoch + number / len(batches)) / self.epochs, rows
            if report is not None and epoch % max(1, self.epochs // 100) == 0:
                report(epoch / self.epochs)


def train(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    training: Training,
    seed: int | None = None,
    report: Callable[[float], None] | None = None,
) -> nn.Module:
    """Train a network in place.

    Args:
        model: The network.
        inputs: Training inputs, (N, ...).
        targets: Training targets, (N, ...).
        loss: A function of outputs and targets to minimise.
        training: How long and how fast.
        seed: Of batches and dropout; torch's global generators are left as they were. None draws
            from these.
        report: Called with the part that is done, about a hundred times.

    Returns:
        The model in eval mode.
    """
    model.train()
    rate, decay = training.learning_rate, training.weight_decay
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)
    schedule = None
    if training.cosine:
        steps = training.epochs * math.ceil(len(inputs) / (training.batch_size or len(inputs)))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    with torch.enable_grad(), nullcontext() if seed is None else seeded(seed):
        for _, (rows,) in training.batches(len(inputs), report=report):
            optimiser.zero_grad()
            loss(model(inputs[rows]), targets[rows]).backward()
            optimiser.step()
            if schedule is not None:
                schedule.step()
    return model.eval()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generators start from the seed inside, and are as before outside."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
