"""Modules whose weights cannot be replaced, or that have none: refused by name."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["refuse_without_values"]


def refuse_without_values(model: nn.Module) -> None:
    """Refuse TorchScript, whose weights torch cannot replace, and parameters without values."""
    if any(isinstance(part, torch.jit.ScriptModule) for part in model.modules()):
        raise TypeError(
            "model: TorchScript modules cannot be computed for many sets of weights; give the "
            "Python module that was scripted or traced, with the weights of scripted.state_dict()"
        )
    meta = [name for name, p in model.named_parameters() if p.is_meta]
    if meta:
        raise ValueError(
            f"model: {meta[0]!r} is on the meta device and has no values; load the trained weights "
            "first, for example with load_state_dict(..., assign=True)"
        )
