"""What the baselines share: checked numbers, seeded global randomness, measured draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dims.likelihoods import Gaussian, Likelihood
from dims.loss_surface import LossSurface
from dims.shapes import RowVectors

__all__ = ["check_integer", "check_positive", "measure", "seeded", "with_noise"]


def check_integer(name: str, value: int, lowest: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value < 2**63:
        raise ValueError(f"{name}: expected an integer of at least {lowest}, got {value!r}")


def check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}: must be positive and finite, got {value}")


def with_noise(likelihood: str | Likelihood, noise_std: float | None) -> str | Likelihood:
    """The likelihood with the given noise σ, as it is where none is given."""
    if noise_std is None:
        return likelihood
    if likelihood == "regression":
        return Gaussian(noise_std)
    if isinstance(likelihood, Gaussian):
        return likelihood.with_noise(noise_std)
    raise ValueError(f"noise_std: it belongs to regression only; the likelihood is {likelihood!r}")


def measure(surface: LossSurface, thetas: RowVectors) -> dict[str, Any]:
    """Loss and gradient norm of delivered draws."""
    loss, gradient = surface.value_and_grad(thetas)
    return {"loss": loss, "gradient_norm": gradient.double().norm(dim=-1)}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generators start from the seed inside, and are as before outside."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
