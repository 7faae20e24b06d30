"""What every sampler and baseline reports of the draws it delivers."""

from __future__ import annotations

from typing import Any

from dims.model.shapes import RowVectors
from dims.surface.loss import LossSurface

__all__ = ["measure"]


def measure(surface: LossSurface, thetas: RowVectors) -> dict[str, Any]:
    """Loss and gradient norm of delivered draws."""
    loss, gradient = surface.value_and_grad(thetas)
    return {"loss": loss, "gradient_norm": gradient.double().norm(dim=-1)}
