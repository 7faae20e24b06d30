"""A multilayer perceptron, and a layer that standardises its inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["Standardise", "perceptron"]

ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}


class Standardise(nn.Module):
    """(x − mean) / scale, with constants."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: np.ndarray, scale: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs - self.mean) / self.scale


def perceptron(
    features: int, hidden: Sequence[int], outputs: int, activation: str, generator: torch.Generator
) -> list[nn.Module]:
    """Linear layers with the activation between them; torch's own first weights, but seeded."""
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"activation: {activation!r} is unknown; there are {', '.join(ACTIVATIONS)}"
        )
    listed = isinstance(hidden, Sequence)
    if not (listed and all(isinstance(width, Integral) and width > 0 for width in hidden)):
        raise ValueError(f"hidden: expected widths of layers such as (16, 16), got {hidden!r}")
    layers: list[nn.Module] = []
    for width, following in pairwise([features, *map(int, hidden), outputs]):
        linear = nn.utils.skip_init(nn.Linear, width, following, dtype=torch.float64)
        bound = 1 / math.sqrt(width)
        for parameter in linear.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        layers += [linear, ACTIVATIONS[activation]()]
    return layers[:-1]
