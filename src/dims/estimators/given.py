"""What goes from one step of `fit` to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor, nn

__all__ = ["Checked", "Trained"]


class Checked(NamedTuple):
    """Arrays that passed scikit-learn's checks; targets are standardised, labels numbered."""

    features: np.ndarray
    targets: np.ndarray
    outputs: int
    task: str


class Trained(NamedTuple):
    """A trained network, what it has seen, and rows that it has not."""

    network: nn.Module
    inputs: Tensor
    targets: Tensor
    task: str
    unseen: tuple[Tensor, Tensor] | None
    draw_seed: int
