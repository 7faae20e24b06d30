"""Perturbations: draws of the Laplace posterior, centred at zero, that all samplers share.

ε ~ N(0, Σ),  Σ⁻¹ = P = curvature of L at θ*;     start velocity v = G^(−½)·ε  or  v = ε
"""

from __future__ import annotations

import numpy as np
import torch

from dims.curvature import Precision
from dims.mechanics.geometry import precondition
from dims.model.shapes import RowVectors

__all__ = ["check_seed", "perturbations", "precondition", "standard_noise"]

BLOCK = 16  # draws that are coloured together


def standard_noise(
    draws: int,
    size: int,
    seed: int,
    first: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> RowVectors:
    """Rows z ~ N(0, I), (draws, size): row i is draw `first` + i and depends on (seed, i) only.

    Each draw has its own Philox stream with the key (seed, i); torch's generator keeps 32 bits of
    a seed, so its streams would repeat among some 10⁵ draws. Made on the CPU in float64, so that
    every device and precision sees the same numbers.
    """
    for name, number in (("draws", draws), ("first", first), ("seed", seed)):
        check_seed(name, number)
    rows = np.empty((draws, size))
    for row, draw in zip(rows, range(first, first + draws), strict=True):
        key = np.array([seed, draw], dtype=np.uint64)
        np.random.Generator(np.random.Philox(key=key)).standard_normal(out=row)
    return torch.from_numpy(rows).to(dtype=dtype, device=device)


def check_seed(name: str, number: int) -> int:
    """A number that can be part of a key."""
    if not isinstance(number, (int, np.integer)) or number < 0 or number >= 2**64:
        raise ValueError(f"{name}: expected an integer from 0 to 2⁶⁴ − 1, got {number!r}")
    return int(number)


def perturbations(precision: Precision, draws: int, seed: int, first: int = 0) -> RowVectors:
    """ε of draws `first` … `first` + draws − 1, (draws, K); ε of draw i depends on (seed, i) only.

    Whole blocks of draws are coloured even where only part of one is asked for: a matrix product
    rounds differently for other numbers of rows, and the dynamics amplify any difference.
    """
    begin = first - first % BLOCK
    end = first + draws
    rows = []
    for start in range(begin, end, BLOCK):
        noise = standard_noise(BLOCK, precision.size, seed, start)
        wanted = slice(max(first - start, 0), min(end - start, BLOCK))
        rows.append(precision.color(noise)[wanted])
    if not rows:
        return precision.color(standard_noise(0, precision.size, seed))
    return torch.cat(rows)
