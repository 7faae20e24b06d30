"""`with_logits`: the network whose softmax or sigmoid is taken off."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["with_logits"]


def with_logits(model: nn.Module, sigmoid: bool | None = None) -> nn.Module:
    """The same network with logits for outputs, where it ends in Softmax or Sigmoid.

        softmax:  f = log p,     sigmoid:  f = log p − log(1 − p)

    The last module of (nested) `nn.Sequential` containers is replaced by the identity. Any other
    network is followed by the formula; its outputs are then rounded as its probabilities are, so
    prefer a network without the last layer.

    Args:
        model: The network, which is copied and not modified.
        sigmoid: Whether each output is a probability of its own, as for several labels of a point;
            None: where there is one output. It matters where there is no last module to replace.

    Returns:
        A module for `dims.fit`.

    Raises:
        TypeError: `model` is not a module.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Softmax(-1)).eval()
        >>> posterior = dims.fit(dims.with_logits(model), (x, labels), "classification")
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    module = copy.deepcopy(model)
    if isinstance(module, nn.Sequential) and _take_off(module):
        return module
    return _Logits(module, sigmoid).train(model.training)


def _take_off(module: nn.Sequential) -> bool:
    """Replace the last layer, if it makes probabilities; whether it did."""
    if len(module) == 0:
        return False
    last = module[-1]
    if isinstance(last, nn.Sequential):
        return _take_off(last)
    if isinstance(last, (nn.Softmax, nn.Sigmoid)):
        module[-1] = nn.Identity()
        return True
    return False


class _Logits(nn.Module):
    """The logits of a network's probabilities: of two or more classes, or of labels."""

    def __init__(self, network: nn.Module, sigmoid: bool | None) -> None:
        super().__init__()
        self.network = network
        self.sigmoid = sigmoid

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        probabilities = self.network(*inputs, **named)
        tiny = torch.finfo(probabilities.dtype).tiny
        logs = probabilities.clamp(min=tiny).log()
        several = probabilities.ndim > 1 and probabilities.shape[-1] > 1
        if several and not self.sigmoid:
            return logs
        below_one = 1 - torch.finfo(logs.dtype).eps / 2
        return logs - torch.log1p(-probabilities.clamp(max=below_one))
