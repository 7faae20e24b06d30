"""Untrained networks of one architecture: from a function that makes them, or from a module."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import nn

from dims.model.training import seeded

__all__ = ["fresh_network"]

ADVICE = "give a function that makes an untrained network, such as lambda: MyNetwork()"


def fresh_network(network: nn.Module | Callable[[], Any], seed: int) -> nn.Module:
    """A network with the first weights of a seed, in eval mode."""
    with seeded(seed):
        if isinstance(network, nn.Module):
            made = _drawn_anew(copy.deepcopy(network))
        elif callable(network):
            made = network()
        else:
            raise TypeError(f"network: expected a module, got {type(network).__name__}; {ADVICE}")
    if not isinstance(made, nn.Module):
        raise TypeError(f"network: it returned a {type(made).__name__}, not a module; {ADVICE}")
    _refuse_normalisers(made)
    return made.eval()


def _drawn_anew(model: nn.Module) -> nn.Module:
    """Let every layer draw its weights anew; frozen parameters stay as they are."""
    frozen = {n: p.detach().clone() for n, p in model.named_parameters() if not p.requires_grad}
    # Inner layers first, as in construction: an outer layer may set some of their weights.
    for name, layer in reversed([*model.named_modules()]):
        if not any(p.requires_grad for p in layer.parameters(recurse=False)):
            continue
        # Attention layers of torch have the method with an underscore.
        reset = getattr(layer, "reset_parameters", getattr(layer, "_reset_parameters", None))
        if reset is None:
            raise ValueError(
                f"network: layer {name!r} ({type(layer).__name__}) has parameters and no method "
                f"reset_parameters to draw them anew; {ADVICE}"
            )
        reset()
    for name, values in frozen.items():
        model.get_parameter(name).copy_(values)
    return model


def _refuse_normalisers(model: nn.Module) -> None:
    for name, layer in model.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            own = [*layer.parameters()]
            if not own or any(p.requires_grad for p in own):
                raise ValueError(
                    f"network: layer {name!r} ({type(layer).__name__}) would give every member "
                    "running statistics of its own, which draws of one network cannot have; use "
                    "GroupNorm or LayerNorm, or freeze its parameters to keep the statistics"
                )
