"""Residual networks that the motion can move: smooth, and without statistics of a batch.

ResNet-20 (He et al., 2016, section 4.2) and ResNet-18 in its usual form for 32 × 32 pixels, with
SiLU instead of ReLU and group normalisation instead of batch normalisation. No norm's scale starts
at zero: SiLU, unlike ReLU, halves small numbers each time, so that blocks without an inner part
would leave next to nothing for the last layer.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

NETWORKS = ("resnet20", "resnet18", "tiny")


class GroupNorm(nn.Module):
    """Group normalisation from plain operations, each of which torch can batch and differentiate
    in any mode. Statistics are in float32 whatever the activations are in."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        count, channels, height, width = x.shape
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        parts = wide.reshape(count, self.groups, channels // self.groups, height, width)
        mean = parts.mean((2, 3, 4), keepdim=True)
        centred = parts - mean
        variance = centred.square().mean((2, 3, 4), keepdim=True)
        normal = (centred * (variance + 1e-5).rsqrt()).reshape(count, channels, height, width)
        return (normal * self.weight.view(-1, 1, 1) + self.bias.view(-1, 1, 1)).to(x.dtype)


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int, group: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = GroupNorm(after, after // group)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = GroupNorm(after, after // group)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(silu(self.norm1(self.conv1(x)))))
        return silu(inner + self.shortcut(x))


class ResNet(nn.Module):
    """Stages of residual blocks, then the mean over the image and a linear layer."""

    def __init__(
        self, widths: tuple[int, ...], blocks: int, group: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.norm = GroupNorm(widths[0], widths[0] // group)
        stages = [Block(widths[0], widths[0], 1, group) for _ in range(blocks)]
        for before, after in pairwise(widths):
            stages.append(Block(before, after, 2, group))
            stages += [Block(after, after, 1, group) for _ in range(blocks - 1)]
        self.blocks = nn.Sequential(*stages)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(widths[-1], 10)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out")

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(silu(self.norm(self.stem(x))))
        features = x.float().mean((2, 3))
        return self.head(self.dropout(features))


def network(name: str, dropout: float = 0.0) -> ResNet:
    """A new network with random weights of torch's global generator."""
    if name == "resnet20":
        return ResNet((16, 32, 64), 3, 8, dropout)
    if name == "resnet18":
        return ResNet((64, 128, 256, 512), 2, 16, dropout)
    if name == "tiny":  # for tests
        return ResNet((4, 8), 1, 4, dropout)
    raise ValueError(f"network: one of {', '.join(NETWORKS)}, got {name!r}")
