"""Rows that a trained network has never seen."""

from __future__ import annotations

from numbers import Real
from typing import Any

from dims.model.network import BatchedNetwork
from dims.model.training_data import TrainingData, collect

__all__ = ["collect_unseen"]


def collect_unseen(validation: Any, network: BatchedNetwork) -> TrainingData:
    """Rows for a network that is trained already: they must be rows that it has never seen."""
    if isinstance(validation, Real):
        raise ValueError(
            f"validation: a fraction ({validation}) of the training data is no use here, because "
            "the network has already seen all of it; give rows (x, y) that it was not trained on"
        )
    if validation is None:
        raise ValueError("validation: give rows (x, y) that the network was not trained on")
    return collect(validation, network.vector.device, network.vector.dtype)
