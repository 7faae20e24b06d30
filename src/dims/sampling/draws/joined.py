"""Draws one after the other as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from dims.sampling.draws.container import Draws
from dims.sampling.draws.fields import ROW_LISTS, ROW_TENSORS, joined_weights

__all__ = ["join"]


def join(chunks: Iterable[Draws]) -> Draws:
    """One after the other; what does not belong to rows is that of the first."""
    chunks = list(chunks)
    joined: dict[str, Any] = {
        name: torch.cat([getattr(chunk, name) for chunk in chunks]) for name in ROW_TENSORS
    }
    for name in ROW_LISTS:
        if getattr(chunks[0], name) is not None:
            joined[name] = [entry for chunk in chunks for entry in getattr(chunk, name)]
    return replace(chunks[0], weights=joined_weights(chunks), **joined)
