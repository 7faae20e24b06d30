"""Modules that cannot be sampled as they are: each is refused with what to do."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.weight_norm import WeightNorm

__all__ = ["check_module", "refuse_inference_mode"]

COARSE = (torch.float16, torch.bfloat16)


def check_module(model: object) -> None:
    """Refuse a module that cannot be copied, differentiated or computed precisely enough.

    Args:
        model: What the user gave as the network.

    Raises:
        TypeError: It is not a module, a TorchScript module, or has coarse numbers.
        ValueError: It has no values (meta device), or layers that cannot be copied.
    """
    refuse_inference_mode()
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            "model: TorchScript modules cannot be computed for many sets of weights; give the "
            "Python module that was scripted or traced, with the weights of "
            "scripted.state_dict()"
        )
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise ValueError(
                f"model: {name!r} is on the meta device and has no values; call "
                'model.to_empty(device="cpu") and load the trained weights first'
            )
        if parameter.requires_grad and parameter.dtype in COARSE:
            raise TypeError(
                f"model: {name!r} is {parameter.dtype}, which rounds the loss by far more than "
                "sampling can bear; give a copy in single precision, "
                "copy.deepcopy(model).float()"
            )
    for name, layer in model.named_modules():
        _check_layer(name, layer)


def refuse_inference_mode() -> None:
    """Gradients do not exist inside `torch.inference_mode()`, whatever is enabled there.

    Raises:
        RuntimeError: The caller is inside.
    """
    if torch.is_inference_mode_enabled():
        raise RuntimeError(
            "dims needs gradients, and torch.inference_mode() has none: call fit and sample "
            "outside of it (torch.no_grad() is fine)"
        )


def _check_layer(name: str, layer: nn.Module) -> None:
    hooks = layer._forward_pre_hooks.values()
    if any(isinstance(hook, WeightNorm) for hook in hooks):
        raise ValueError(
            f"model: layer {name!r} uses the old torch.nn.utils.weight_norm, which keeps a "
            "computed weight inside the layer; call torch.nn.utils.remove_weight_norm(layer), "
            "and torch.nn.utils.parametrizations.weight_norm(layer) to sample its g and v"
        )
    for key, value in vars(layer).items():
        if isinstance(value, Tensor) and value.grad_fn is not None:
            raise ValueError(
                f"model: layer {name!r} keeps {key!r}, a tensor computed with gradients (by the "
                "old torch.nn.utils.spectral_norm, or a cache of its own), so it cannot be "
                "copied; call the model once inside torch.no_grad(), or register a buffer"
            )
