from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dims_paper.datasets.banana import load_banana

pytestmark = pytest.mark.data


def test_selection_is_that_of_scikit_learn_and_nothing_is_scaled(data_root: Path) -> None:
    model_selection = pytest.importorskip("sklearn.model_selection")
    table = np.loadtxt(data_root / "banana" / "banana.csv", delimiter=",")
    train, test = model_selection.train_test_split(table, train_size=265, random_state=7)
    split = load_banana(7)
    np.testing.assert_array_equal(split.train_inputs.numpy(), train[:, :2])
    np.testing.assert_array_equal(split.train_targets.numpy(), train[:, 2] - 1)
    np.testing.assert_array_equal(split.test_inputs.numpy(), test[:, :2])
    np.testing.assert_array_equal(split.test_targets.numpy(), test[:, 2] - 1)


def test_shapes_and_class_counts() -> None:
    split = load_banana(0, train_points=300, dtype=torch.float32)
    assert split.train_inputs.shape == (300, 2)
    assert split.test_inputs.shape == (5000, 2)
    assert split.validation_inputs.shape == (0, 2)
    assert split.validation_targets.shape == (0,)
    assert split.train_inputs.dtype is torch.float32
    targets = torch.cat([split.train_targets, split.test_targets])
    assert torch.bincount(targets).tolist() == [2924, 2376]
    assert split.classes == 2


def test_bad_arguments_are_named() -> None:
    for train_points in (0, 5300):
        with pytest.raises(ValueError, match="train_points must lie between 1 and 5299"):
            load_banana(0, train_points=train_points)
    with pytest.raises(ValueError, match="seed"):
        load_banana(-1)
