"""Convolutions on the fast units of a GPU, with weights that lose no digits.

TF32 keeps 11 and bfloat16 8 of the 24 binary digits of a float32 number. The rounding of a weight
is the same for all images, and moves the whole loss; that of an activation is another one for every
pixel, and mostly averages out. Weights are therefore given in two parts,

    W = H + R,   H = W rounded to bfloat16,      conv(x, W) = conv(x, H) + conv(x, R),

where H is exact in either format and R loses digits beyond the 16th or 19th. The gradient in H is
that in W, and R is a constant: a gradient costs two thirds more products than one of plain TF32.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import torch
from torch import Tensor, nn

__all__ = ["PRECISIONS", "in_precision", "rounded", "with_two_parts"]

PRECISIONS = ("float32", "tf32", "tf32x2", "bf16x2")
REST = "_rest"  # the parameter "a.weight" has its second part in the buffer "a.weight_rest"


def with_two_parts(module: nn.Module) -> tuple[nn.Module, list[str]]:
    """A copy on the same tensors whose convolutions add a second part, and their weights' names.

    Linear layers of the copy compute in float32 under autocast too: they are cheap, and logits of
    eight digits would show in the loss.
    """
    shared = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    other = copy.deepcopy(module, shared)
    names = []
    for name, layer in other.named_modules():
        if isinstance(layer, nn.Conv2d) and layer.padding_mode == "zeros":
            layer.__class__ = _TwoPartConv2d
            layer.register_buffer("weight" + REST, torch.zeros_like(layer.weight), persistent=False)
            names.append(f"{name}.weight" if name else "weight")
        elif type(layer) is nn.Linear:
            layer.__class__ = _WideLinear
    return other, names


def rounded(weights: Tensor) -> Tensor:
    """H: the nearest numbers of eight binary digits."""
    return weights.to(torch.bfloat16).to(weights.dtype)


@contextmanager
def in_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Convolutions within are computed so; the caller's settings come back."""
    cudnn, before = torch.backends.cudnn, torch.backends.cudnn.allow_tf32
    cudnn.allow_tf32 = precision in ("tf32", "tf32x2")
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16x2"):
            yield
    finally:
        cudnn.allow_tf32 = before


class _TwoPartConv2d(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        rest: Tensor = getattr(self, "weight" + REST)
        main = self._conv_forward(input, self.weight, self.bias)
        return main + self._conv_forward(input, rest, None)


class _WideLinear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))
