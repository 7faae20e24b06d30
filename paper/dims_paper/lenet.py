"""LeNet with a smooth loss."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


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
