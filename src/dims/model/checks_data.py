"""Does the data change from one reading to the next? Asked of a few points, twice."""

# ruff: noqa: NPY002  (augmentations draw from numpy's global generator, as do many programs)

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    WeightedRandomSampler,
)

from dims.errors import AugmentationWarning

__all__ = ["global_generators_kept", "warn_of_random_data"]

POINTS = 8


def warn_of_random_data(data: Any) -> None:
    """Warn of a Dataset or DataLoader whose points are random: one pass of them will be kept.

    A point is random if it differs when it is read again, or if reading it draws from the global
    generators of torch, numpy or Python, as an augmentation that acts seldom does. An
    `IterableDataset` is not asked, since it may have one pass only.

    Args:
        data: What the user gave; pairs of tensors pass.
    """
    loader = data if isinstance(data, DataLoader) else None
    dataset = data if loader is None else loader.dataset
    if not isinstance(dataset, Dataset) or isinstance(dataset, IterableDataset):
        return
    cause = ""
    if loader is not None and _draws_with_replacement(loader.sampler):
        cause = "its sampler draws points with replacement"
    elif _changes(dataset, None if loader is None or loader.batch_size is None else loader):
        cause = "its points change from one reading to the next, as random augmentation makes them"
    if cause:
        warnings.warn(
            f"data: {cause}. One pass is read now and kept, and the loss on these points is what "
            "is sampled; another fit reads others. Give the data without what is random, or a "
            "fixed number of passes as data, dims.augmented(data, passes=10)",
            AugmentationWarning,
            stacklevel=6,  # the caller of `fit`, which is decorated
        )


@contextmanager
def global_generators_kept(*seed: int) -> Iterator[None]:
    """The global generators of torch, numpy and Python, as before outside; from a seed, if any."""
    kept = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            if seed:
                words = np.random.SeedSequence(seed).generate_state(3)
                torch.manual_seed(int(words[0]))
                np.random.seed(int(words[1]))
                random.seed(int(words[2]))
            yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])


def _draws_with_replacement(sampler: Any) -> bool:
    weighted = isinstance(sampler, WeightedRandomSampler) and sampler.replacement
    return weighted or (isinstance(sampler, RandomSampler) and sampler.replacement)


def _changes(dataset: Dataset, loader: DataLoader | None) -> bool:
    total = len(dataset)  # type: ignore[arg-type]
    rows = sorted({round(i * (total - 1) / (POINTS - 1)) for i in range(POINTS)} if total else [])

    def read() -> Any:
        points = [dataset[row] for row in rows]
        return points if loader is None or not points else loader.collate_fn(points)

    with global_generators_kept():
        before = _states()
        first = read()
        return not _same(before, _states()) or not _same(first, read())


def _states() -> tuple[Any, ...]:
    kind, keys, *place = np.random.get_state()
    return torch.get_rng_state(), random.getstate(), kind, keys, *place


def _same(one: Any, other: Any) -> bool:
    """Whether two readings are equal, NaN for NaN; what cannot be compared counts as equal."""
    if isinstance(one, dict):
        return all(_same(value, other.get(key)) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, (Tensor, np.ndarray)):
        one, other = torch.as_tensor(one), torch.as_tensor(other)
        return one.shape == other.shape and torch.allclose(one, other, 0, 0, equal_nan=True)
    return bool(one == other) or one != one
