"""What the baselines share: checked numbers and seeded global randomness."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["check_integer", "check_positive", "seeded"]


def check_integer(name: str, value: int, lowest: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value < 2**63:
        raise ValueError(f"{name}: expected an integer of at least {lowest}, got {value!r}")


def check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}: must be positive and finite, got {value}")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generators start from the seed inside, and are as before outside."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
