"""Training as in the paper: Adam with weight decay on dropout networks, dropout off afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from dims.baselines.common import seeded

__all__ = ["Task", "Training", "mlp", "train", "train_together"]

Loss = Callable[[Tensor, Tensor], Tensor]


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
    loss: Loss,
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


def train_together(
    models: Sequence[nn.Module],
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    training: Training,
    seeds: Sequence[int],
    report: Callable[[float], None] | None = None,
) -> list[nn.Module]:
    """What `train` does to each network with its seed, in one batched pass for all of them.

    Adam acts on every number alone, so stacked networks do not feel each other. Each has its own
    shuffles, without dropout those of `train`; dropout masks are drawn for all at once.
    """
    model, points = models[0], len(inputs)
    with seeded(seeds[0]):
        model.train()
        parameters, _ = stack_module_state(list(models))
        optimiser = torch.optim.Adam(
            parameters.values(),
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
            fused=True,
        )

        def one(tensors: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return loss(functional_call(model, tensors, (x,)), y)

        losses = torch.vmap(one, randomness="different")
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        size = training.batch_size or points
        in_order = torch.arange(points).expand(len(models), -1)
        for epoch in range(training.epochs):
            order = in_order
            if size < points:
                order = torch.stack([torch.randperm(points, generator=g) for g in generators])
            for rows in order.split(size, dim=1):
                optimiser.zero_grad()
                losses(parameters, inputs[rows], targets[rows]).sum().backward()
                optimiser.step()
            if report is not None and epoch % 100 == 0:
                report(epoch / training.epochs)
    with torch.no_grad():
        for number, member in enumerate(models):
            for name, tensor in member.named_parameters():
                tensor.copy_(parameters[name][number])
    return [member.eval() for member in models]


@dataclass(frozen=True)
class Task:
    """A network that can be made anew for any seed, and what it is trained on."""

    network: Callable[[], nn.Module]
    inputs: Tensor
    targets: Tensor
    loss: Loss
    training: Training

    def fresh(self, seed: int) -> nn.Module:
        """The network with the first weights of a seed."""
        with seeded(seed):
            return self.network()

    def train(self, seed: int, report: Callable[[float], None] | None = None) -> nn.Module:
        """The trained network of a seed, the same in every run."""
        model = self.fresh(seed)
        return train(model, self.inputs, self.targets, self.loss, self.training, seed, report)

    def train_together(
        self, seeds: Sequence[int], report: Callable[[float], None] | None = None
    ) -> list[nn.Module]:
        """The trained networks of many seeds at once: the members of a deep ensemble."""
        models = [self.fresh(seed) for seed in seeds]
        return train_together(
            models, self.inputs, self.targets, self.loss, self.training, seeds, report
        )
