"""Rows that a trained network has never seen."""

from __future__ import annotations

from numbers import Real
from typing import Any

from dims.model.network import BatchedNetwork
from dims.model.training_data import TrainingData, collect
from dims.surface.loss import LossSurface

__all__ = ["checked_unseen", "collect_unseen"]


def collect_unseen(
    rows: Any, network: BatchedNetwork, argument: str = "validation"
) -> TrainingData:
    """Rows for a network that is trained already: they must be rows that it has never seen."""
    if isinstance(rows, Real):
        raise ValueError(
            f"{argument}: a fraction ({rows}) of the training data is no use here, because the "
            "network has already seen all of it; give rows (x, y) that it was not trained on"
        )
    if rows is None:
        raise ValueError(f"{argument}: give rows (x, y) that the network was not trained on")
    return collect(rows, network.vector.device, network.vector.dtype)


def checked_unseen(rows: Any, surface: LossSurface, argument: str = "validation") -> TrainingData:
    """The same with targets as the likelihood of a surface takes them."""
    found = collect_unseen(rows, surface, argument)
    outputs = surface.predict(surface.initial.unsqueeze(0), found.inputs)[0]
    return found._replace(targets=surface.likelihood.check_targets(outputs, found.targets))
