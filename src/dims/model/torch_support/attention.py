"""Attention from plain operations: torch's fused kernels have no batches or second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

__all__ = ["calls_attention", "unfuse_attention"]


def unfuse_attention(module: nn.Module) -> bool:
    """Make attention layers use plain operations: their fused inference has no derivatives.

    It is used in eval mode only, so the layer's own flag (not that of the layers inside) is set
    to training, and the one dropout that would read it is switched off.
    """
    layers = [m for m in module.modules() if isinstance(m, nn.MultiheadAttention)]
    for layer in layers:
        layer.training, layer.dropout = True, 0.0
    for encoder in module.modules():
        if isinstance(encoder, nn.TransformerEncoderLayer):
            encoder.training = True
    return bool(layers)


def calls_attention(run: Callable[[], object]) -> bool:
    """Whether a network calls torch's attention function itself, outside torch's own layers."""
    watch = _Watch()
    with torch.no_grad(), watch:
        run()
    return watch.seen


class _Watch(TorchFunctionMode):
    seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or func is scaled_dot_product_attention
        return func(*args, **(kwargs or {}))
