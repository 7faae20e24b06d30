"""The UCI regression sets: published splits, scaling by the training part, published errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dims_paper.datasets.locate import find
from dims_paper.datasets.uci_regression import (
    REGRESSION_NAMES,
    load_published,
    load_regression,
    split_count,
)

pytestmark = pytest.mark.data


def test_a_split_has_the_published_test_rows_in_the_units_of_the_training_part() -> None:
    data = load_regression("yacht", 3)
    with np.load(find("uci_regression/yacht.npz"), allow_pickle=False) as file:
        inputs, targets, test = file["inputs"], file["targets"], file["test_3"]
    train = np.setdiff1d(np.arange(len(inputs)), test)
    assert len(data.test[0]) == len(test)
    assert len(data.train[0]) == len(train)
    for tensor in data.train:
        torch.testing.assert_close(tensor.mean(0), torch.zeros_like(tensor[0]), atol=1e-9, rtol=0)
        torch.testing.assert_close(tensor.std(0, correction=0), torch.ones_like(tensor[0]))
    assert data.target_scale == pytest.approx(float(targets[train].std()))
    expected = np.sort((targets[test] - targets[train].mean()) / targets[train].std())
    np.testing.assert_allclose(np.sort(data.test[1][:, 0].numpy()), expected)


def test_there_are_twenty_splits_and_five_of_protein() -> None:
    counts = {name: split_count(name) for name in REGRESSION_NAMES}
    assert counts.pop("protein") == 5
    assert set(counts.values()) == {20}
    with pytest.raises(ValueError, match="split must lie between 0 and 19"):
        load_regression("yacht", 20)
    with pytest.raises(ValueError, match="name must be one of"):
        load_regression("moon", 0)


def test_published_errors_are_standard_errors() -> None:
    published = {(entry.dataset, entry.method): entry for entry in load_published()}
    assert len({name for name, _ in published}) == 9
    assert published["boston", "MC dropout"].nll_error == 0.04  # reported as a standard error
    ensemble = published["boston", "Deep ensemble of 5"]
    assert ensemble.nll_error == pytest.approx(0.25 / math.sqrt(20))
    assert published["protein", "Deep ensemble of 5"].nll_error == pytest.approx(0.02 / 5**0.5)
    assert published["naval", "MC dropout"].nll_error == 0.005  # printed as 0.00
    assert published["boston", "NGBoost"].rmse is None
