"""LeNet with a smooth loss."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

__all__ = ["lenet"]


def lenet(activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    """44 426 parameters; smooth, as the motion needs it: average pooling and tanh. With GELU the
    trained network is a little better, and its surface far steeper: a draw takes several times as
    many gradients."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), activation(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), activation(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), activation(), nn.Linear(120, 84), activation(), nn.Linear(84, 10),
    )  # fmt: skip
