"""Training as in the paper: Adam with weight decay on dropout networks, dropout off afterwards.

The one training loop of the package (`train`), the same for many networks at once
(`train_together`), and the builders of networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from dims.baselines.common import seeded

Loss = Callable[[Tensor, Tensor], Tensor]


WORTH_COMPILING = 2000  # steps on a GPU, where an uncompiled one is mostly overhead
FOR_ONE_THREAD = 10**6  # parameters times points of a step


@dataclass(frozen=True)
class Training:
    """How a network is trained; the learning rate and weight decay are the paper's for all."""

    epochs: int
    batch_size: int | None = None  # None: all points at once
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    cosine: bool = False  # the learning rate falls to 0 along half a cosine

    def rate(self, part: float) -> float:
        """The learning rate when so much of the training is done."""
        if not self.cosine:
            return self.learning_rate
        return 0.5 * self.learning_rate * (1 + math.cos(math.pi * part))


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


def lenet(
    activation: Callable[[], nn.Module] = nn.Tanh,
    channels: tuple[int, int] = (6, 16),
    hidden: tuple[int, int] = (120, 84),
) -> nn.Sequential:
    """44 426 parameters; smooth, as the motion needs it: average pooling and tanh. With GELU the
    trained network is a little better, and its surface far steeper: a draw takes several times as
    many gradients."""
    (first, second), (wide, narrow) = channels, hidden
    return nn.Sequential(
        nn.Conv2d(1, first, 5), activation(), nn.AvgPool2d(2),
        nn.Conv2d(first, second, 5), activation(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(16 * second, wide), activation(), nn.Linear(wide, narrow), activation(),
        nn.Linear(narrow, 10),
    )  # fmt: skip


@contextmanager
def _threads_for(numbers: int, training: Training) -> Iterator[None]:
    """One thread where networks are so small that two spend their time waiting for each other."""
    before = torch.get_num_threads()
    if numbers * (training.batch_size or 1) < FOR_ONE_THREAD:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
    with seeded(seed), _threads_for(sum(p.numel() for p in model.parameters()), training):
        model.train()
        optimiser = torch.optim.Adam(
            model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )
        size = training.batch_size or len(inputs)
        steps = training.epochs * math.ceil(len(inputs) / size)
        schedule = None
        if training.cosine:
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for epoch in range(training.epochs):
            order = torch.randperm(len(inputs)) if size < len(inputs) else torch.arange(len(inputs))
            for rows in order.split(size):
                optimiser.zero_grad()
                loss(model(inputs[rows]), targets[rows]).backward()
                optimiser.step()
                if schedule is not None:
                    schedule.step()
            if report is not None and epoch % max(1, training.epochs // 100) == 0:
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
    size = training.batch_size or points
    numbers = len(models) * sum(p.numel() for p in model.parameters())
    with seeded(seeds[0]), _threads_for(numbers, training):
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
        if inputs.is_cuda and training.epochs * math.ceil(points / size) > WORTH_COMPILING:
            losses = torch.compile(losses)
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        in_order = torch.arange(points).expand(len(models), -1)
        for epoch in range(training.epochs):
            order = in_order
            if size < points:
                order = torch.stack([torch.randperm(points, generator=g) for g in generators])
            batches = order.to(inputs.device).split(size, dim=1)
            for number, rows in enumerate(batches):
                part = (epoch + number / len(batches)) / training.epochs
                optimiser.param_groups[0]["lr"] = training.rate(part)
                optimiser.zero_grad()
                losses(parameters, inputs[rows], targets[rows]).sum().backward()
                optimiser.step()
            if report is not None and epoch % max(1, training.epochs // 100) == 0:
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
