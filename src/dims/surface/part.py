"""A loss on some of its training points."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from dims.surface.loss import LossSurface

__all__ = ["every", "on_points"]


def on_points(surface: LossSurface, points: Tensor) -> LossSurface:
    """The same loss on some of the points, each of which counts as before.

    Args:
        surface: The loss on all points.
        points: The numbers of those that stay.

    Returns:
        A surface that shares the network with the given one.
    """
    other = copy.copy(surface)
    other.data, other.work = surface.data.part(points), surface.work.part(points)
    other.points = len(points)
    other.effective_points = surface.effective_points * len(points) / surface.points
    other.renew_gradient()
    return other


def every(surface: LossSurface, stride: int) -> LossSurface:
    """The loss on every second, third … point; the given surface for a stride of 1."""
    if stride == 1:
        return surface
    return on_points(surface, torch.arange(0, surface.points, stride, device=surface.vector.device))
