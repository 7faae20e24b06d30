"""What a tabular loader returns, and scikit-learn's way to split and scale, without scikit-learn.

The published experiments split with `train_test_split` and scale with `StandardScaler`. Both are
a few lines of numpy; written here they give the same rows and the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Split:
    """A classification task: inputs of shape (N, features), integer targets of shape (N,).

    `classes` is the number of classes; `class_names[k]` is the label in the file of target k.
    A protocol without a validation part leaves it with zero rows.
    """

    train_inputs: Tensor
    train_targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor
    validation_inputs: Tensor
    validation_targets: Tensor
    classes: int
    class_names: tuple[str, ...]

    @property
    def parts(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Inputs and targets of the training and the test part."""
        return {
            "train": (self.train_inputs, self.train_targets),
            "test": (self.test_inputs, self.test_targets),
        }


def train_test_indices(
    count: int, train_count: int, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows for training and the rest, as `train_test_split(train_size=…, random_state=seed)`.

    The order is part of the protocol: the shuffled rows begin with the test part.
    """
    if not 0 < train_count < count:
        raise ValueError(f"train_count must lie between 1 and {count - 1}, got {train_count}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be an integer from 0 to 2**32 - 1, got {seed!r}")
    # The legacy generator, because its stream is what fixes the published splits.
    shuffled = np.random.RandomState(seed).permutation(count)
    return shuffled[count - train_count :], shuffled[: count - train_count]


def standardise(
    train: NDArray[np.float64], *others: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Shift and scale by the mean and population standard deviation of `train`.

    A column that is constant up to rounding keeps scale 1, by the error bound of the two-pass
    variance (Chan, Golub and LeVeque 1983) that scikit-learn uses.
    """
    count = len(train)
    mean = train.sum(axis=0) / count
    deviation = train - mean
    correction = deviation.sum(axis=0) ** 2 / count
    variance = ((deviation**2).sum(axis=0) - correction) / count
    epsilon = np.finfo(np.float64).eps
    constant = variance <= count * epsilon * variance + (count * mean * epsilon) ** 2
    scale = np.where(constant, 1.0, np.sqrt(np.where(constant, 1.0, variance)))
    return tuple((part - mean) / scale for part in (train, *others))


def to_split(
    inputs: NDArray[np.float64],
    labels: NDArray[np.int64],
    class_names: tuple[str, ...],
    *,
    seed: int,
    dtype: torch.dtype,
) -> Split:
    """70 % training, the rest halved into test (first) and validation, scaled by the training part.

    Both cuts use the same seed, as the published code does.
    """
    # In floating point on purpose: 0.7 * 690 rounds to just below 483 and gives 482 rows.
    train, rest = train_test_indices(len(inputs), math.floor(0.7 * len(inputs)), seed)
    first, second = train_test_indices(len(rest), math.floor(0.5 * len(rest)), seed)
    test, validation = rest[first], rest[second]
    scaled = standardise(inputs[train], inputs[test], inputs[validation])
    train_inputs, test_inputs, validation_inputs = (
        torch.from_numpy(part).to(dtype) for part in scaled
    )
    return Split(
        train_inputs=train_inputs,
        train_targets=torch.from_numpy(labels[train]),
        test_inputs=test_inputs,
        test_targets=torch.from_numpy(labels[test]),
        validation_inputs=validation_inputs,
        validation_targets=torch.from_numpy(labels[validation]),
        classes=len(class_names),
        class_names=class_names,
    )
