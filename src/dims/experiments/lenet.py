"""LeNet, and networks of one architecture trained side by side on any device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from dims.baselines.common import seeded
from dims.data.images import Images

__all__ = ["ImageTraining", "lenet", "train_networks"]

WORTH_COMPILING = 2000  # steps on a GPU, where an uncompiled one is mostly launches


def lenet(activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    """44 426 parameters; smooth, as the motion needs it: average pooling and tanh. With GELU the
    trained network is a little better, and its surface far steeper: a draw takes seven times as
    many gradients."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), activation(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), activation(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), activation(), nn.Linear(120, 84), activation(), nn.Linear(84, 10),
    )  # fmt: skip


@dataclass(frozen=True)
class ImageTraining:
    """Adam on the mean cross-entropy; the defaults are the paper's for MNIST."""

    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    cosine: bool = False  # the learning rate falls to 0 along half a cosine


def train_networks(
    build: Callable[[], nn.Module],
    images: Images,
    training: ImageTraining,
    seeds: Sequence[int],
    report: Callable[[float], None] | None = None,
) -> list[nn.Module]:
    """One network for each seed, in eval mode; all take their steps at once.

    Adam acts on every number by itself, so a network is trained as it would be alone: its seed
    fixes its start and the order of its batches.
    """
    models = []
    for seed in seeds:
        with seeded(seed):
            models.append(build().to(images.inputs.device))
    tensors, buffers = stack_module_state(models)
    for tensor in tensors.values():
        tensor.requires_grad_(True)
    optimiser = torch.optim.Adam(
        tensors.values(),
        lr=training.learning_rate,
        weight_decay=training.weight_decay,
        fused=images.inputs.is_cuda,
    )

    def loss(
        tensors: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor, targets: Tensor
    ) -> Tensor:
        outputs = functional_call(models[0], (tensors, buffers), (inputs,))
        return nn.functional.cross_entropy(outputs, targets)

    losses = torch.vmap(loss, randomness="different")
    steps = training.epochs * math.ceil(len(images.inputs) / training.batch_size)
    if images.inputs.is_cuda and steps > WORTH_COMPILING:
        losses = torch.compile(losses)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for epoch in range(training.epochs):
        orders = torch.stack(
            [torch.randperm(len(images.inputs), generator=generator) for generator in generators]
        ).to(images.inputs.device)
        batches = orders.split(training.batch_size, dim=1)
        for number, rows in enumerate(batches):
            if training.cosine:
                part = (epoch + number / len(batches)) / training.epochs
                rate = 0.5 * training.learning_rate * (1 + math.cos(math.pi * part))
                optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            losses(tensors, buffers, images.inputs[rows], images.targets[rows]).sum().backward()
            optimiser.step()
        if report is not None:
            report((epoch + 1) / training.epochs)
    for member, model in enumerate(models):
        model.load_state_dict(
            {name: tensor[member].detach() for name, tensor in (tensors | buffers).items()}
        )
        model.eval()
    return models
