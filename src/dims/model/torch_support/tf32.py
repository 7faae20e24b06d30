"""Products of float32 numbers on a GPU: all their digits, or TF32's three."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from dims.errors import Tf32Warning

__all__ = ["convolutions_round", "float32_products", "warn_of_tf32"]

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def warn_of_tf32(module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Torch computes convolutions on a GPU in TF32 unless it is told not to."""
    if device.type != "cuda" or dtype != torch.float32 or not convolutions_round():
        return
    if any(isinstance(part, CONVOLUTIONS) for part in module.modules()):
        warnings.warn(
            "convolutions on this GPU run in TF32, torch's default: gradients away from the "
            "trained weights may be off by several percent, and the energy does not show it. "
            "torch.backends.cudnn.allow_tf32 = False gives float32",
            Tf32Warning,
            stacklevel=2,
        )


def convolutions_round() -> bool:
    """Whether convolutions on a GPU are computed in TF32."""
    cudnn = torch.backends.cudnn
    # Newer versions of torch have a setting for each kind of operation, and refuse to answer for
    # all of them at once where they differ.
    if hasattr(cudnn, "conv"):
        return bool(cudnn.conv.fp32_precision == "tf32")
    return bool(cudnn.allow_tf32)


@contextmanager
def float32_products() -> Iterator[None]:
    """No TF32 within. On LeNet at trajectories' t = 1 its gradients are off by 3 to 5 percent,
    those of float32 by 6e-6."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
