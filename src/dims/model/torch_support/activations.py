"""Activations: PReLU in batches, and GELU as compiled gradients on a CPU want it.

The latter takes value and slope from one exponential.

    GELU(x) = x·Φ(x),   GELU'(x) = Φ(x) + x·φ(x),   Φ(−z) = p(t)·e^(−z²/2), t = 1/(1 + z·q/√2)

Torch takes an error function for Φ and an exponential for φ, and on a core the two are more than
half of the gradient of a small network. The polynomial p gives Φ to 7.5e-8, half the distance
between float32 numbers next to 1.

Reference: M. Abramowitz and I. A. Stegun, "Handbook of mathematical functions", 7.1.26.
"""

from __future__ import annotations

import copy
import math
from itertools import chain

import torch
from torch import Tensor, nn

__all__ = ["use_plain_prelu", "with_cheap_gelu"]

RATE = 0.3275911 / math.sqrt(2)  # q/√2
PEAK = 1 / math.sqrt(2 * math.pi)  # φ(0)
COEFFICIENTS = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def with_cheap_gelu(module: nn.Module) -> nn.Module:
    """The module, or a copy on the same tensors that may be differentiated ONCE.

    Second derivatives of the copy are wrong, so it is for gradients alone.
    """
    if not any(_is_exact_gelu(layer) for layer in module.modules()):
        return module
    shared = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    other = copy.deepcopy(module, shared)
    for layer in other.modules():
        if _is_exact_gelu(layer):
            layer.__class__ = _CheapGelu
    return other


def use_plain_prelu(module: nn.Module) -> None:
    """Let PReLU layers use an operation whose derivative torch can batch over points."""
    for layer in module.modules():
        if type(layer) is nn.PReLU:
            layer.__class__ = _PlainPReLU


class _PlainPReLU(nn.PReLU):
    def forward(self, input: Tensor) -> Tensor:
        slopes: Tensor = self.weight
        if len(slopes) > 1:  # one for each channel, the second axis
            slopes = slopes.view(-1, *[1] * (input.ndim - 2))
        return torch.where(input > 0, input, slopes * input)


def _is_exact_gelu(layer: nn.Module) -> bool:
    return type(layer) is nn.GELU and layer.approximate == "none"


class _CheapGelu(nn.GELU):
    def forward(self, input: Tensor) -> Tensor:
        if input.dtype != torch.float32 or input.device.type != "cpu":
            return super().forward(input)
        x = input.detach()
        bell = torch.exp(-0.5 * x * x)
        t = 1 / (1 + RATE * x.abs())
        polynomial = torch.zeros_like(t)
        for coefficient in reversed(COEFFICIENTS):
            polynomial = t * (polynomial + 0.5 * coefficient)
        below = polynomial * bell  # Φ(−|x|)
        area = torch.where(x < 0, below, 1 - below)
        slope = area + x * bell * PEAK
        return x * area + slope * (input - x)  # the last term is zero, with the slope as derivative
