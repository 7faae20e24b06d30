"""What goes from one step of `fit` to the next."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from torch import Tensor, nn

from dims.model.likelihoods import Likelihood
from dims.sampling.posterior import Posterior

__all__ = ["Checked", "Fitted", "Trained"]


class Checked(NamedTuple):
    """Arrays that passed scikit-learn's checks; targets are standardised, labels numbered."""

    features: np.ndarray
    targets: np.ndarray
    outputs: int
    task: str | Likelihood
    skip: bool = False  # whether the network gets a skip connection


class Trained(NamedTuple):
    """A trained network, what it has seen, and rows that it has not."""

    network: nn.Module
    inputs: Tensor
    targets: Tensor
    task: str | Likelihood
    unseen: tuple[Tensor, Tensor] | None
    draw_seed: int
    epochs: int
    skip: bool


class Fitted(NamedTuple):
    """A trained network with its posterior, and the warnings on the way."""

    made: Trained
    posterior: Posterior
    told: list[warnings.WarningMessage]
