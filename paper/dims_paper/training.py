"""Training as in the paper: Adam with weight decay on dropout networks, dropout off afterwards.

Tasks that the library's loop trains, the same loop for many networks at once (`train_together`),
and the network of the images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from dims.model.training import Loss, Training, seeded, train

WORTH_COMPILING = 2000  # steps on a GPU, where an uncompiled one is mostly overhead
FOR_ONE_THREAD = 10**6  # parameters times points of a step


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
        for part, rows in training.batches(points, generators, report):
            if training.cosine:
                rate = 0.5 * training.learning_rate * (1 + math.cos(math.pi * part))
                optimiser.param_groups[0]["lr"] = rate
            rows = rows.to(inputs.device)
            optimiser.zero_grad()
            losses(parameters, inputs[rows], targets[rows]).sum().backward()
            optimiser.step()
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
        model, how = self.fresh(seed), self.training
        with _threads_for(sum(p.numel() for p in model.parameters()), how):
            return train(model, self.inputs, self.targets, self.loss, how, seed, report)

    def train_together(
        self, seeds: Sequence[int], report: Callable[[float], None] | None = None
    ) -> list[nn.Module]:
        """The trained networks of many seeds at once: the members of a deep ensemble."""
        models = [self.fresh(seed) for seed in seeds]
        return train_together(
            models, self.inputs, self.targets, self.loss, self.training, seeds, report
        )
