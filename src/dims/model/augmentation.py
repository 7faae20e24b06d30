"""`augmented`: a fixed number of randomly augmented passes as training data."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from dims.errors import AugmentationWarning
from dims.model.checks_data import global_generators_kept
from dims.model.shapes import check_integer
from dims.model.training_data import Inputs, TrainingData, _cat, collect

__all__ = ["AugmentedData", "augmented", "passes_of"]


class AugmentedData(TrainingData):
    """All points of several passes; together they count as the points of one."""

    passes: int


def augmented(
    data: Any, passes: int, *, seed: int = 0, dtype: torch.dtype | None = None
) -> AugmentedData:
    """Read a randomly augmented DataLoader or Dataset several times and keep what it gives.

        −log p(y|θ) = (1/P)·Σₚ Σᵢ −log p(yᵢ|f_θ(x⁽ᵖ⁾ᵢ)),     p = 1, …, P

    The loss of a point is its mean over P augmentations, so that the posterior is as wide as that
    of N points, not of P·N. The memory is that of P·N points.

    Args:
        data: The DataLoader or Dataset.
        passes: P. More passes come nearer to the loss that training minimised.
        seed: Of the augmentation; the global generators of torch, numpy and Python are left as
            they were.
        dtype: Precision in which inputs are kept; None: torch's default.

    Returns:
        Data for `dims.fit` and `dims.LossSurface`.

    Raises:
        ValueError: `passes` is not a positive number, or the data is empty.

    Example:
        >>> posterior = dims.fit(model, dims.augmented(loader, passes=10), "classification")
    """
    check_integer("passes", passes)
    check_integer("seed", seed, lowest=0)
    read: list[TrainingData] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AugmentationWarning)
        for number in range(passes):
            with global_generators_kept(seed, number):
                kind = dtype or torch.get_default_dtype()
                read.append(collect(data, torch.device("cpu"), kind))
    inputs: Inputs = _cat([part.inputs for part in read])
    together = AugmentedData(inputs, torch.cat([part.targets for part in read]))
    together.passes = passes
    return together


def passes_of(data: Any) -> int:
    """The number of passes over the same points that some data holds."""
    return data.passes if isinstance(data, AugmentedData) else 1
