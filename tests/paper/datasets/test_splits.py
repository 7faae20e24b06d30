from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dims_paper.datasets.splits import standardise, train_test_indices

model_selection = pytest.importorskip("sklearn.model_selection")
preprocessing = pytest.importorskip("sklearn.preprocessing")


@settings(deadline=None)
@given(count=st.integers(2, 400), seed=st.integers(0, 2**32 - 1), share=st.floats(0.01, 0.99))
def test_indices_are_those_of_scikit_learn(count: int, seed: int, share: float) -> None:
    train_count = min(max(int(share * count), 1), count - 1)
    train, rest = train_test_indices(count, train_count, seed)
    expected = model_selection.train_test_split(
        np.arange(count), train_size=train_count, random_state=seed
    )
    np.testing.assert_array_equal(train, expected[0])
    np.testing.assert_array_equal(rest, expected[1])


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_named() -> None:
    for train_count in (0, 5, -1):
        with pytest.raises(ValueError, match="train_count must lie between 1 and 4"):
            train_test_indices(5, train_count, 0)
    for seed in (-1, 2**32, 1.0, True):
        with pytest.raises(ValueError, match="seed must be an integer"):
            train_test_indices(5, 3, seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_scaling_is_that_of_scikit_learn(offset: float) -> None:
    generator = np.random.default_rng(0)
    train = generator.normal(size=(50, 5)) * 10.0 ** np.arange(-3, 2) + offset
    # Constant columns: exactly, and up to the rounding of a sum of tenths.
    train[:, 1] = offset
    train[:, 2] = 0.1
    other = generator.normal(size=(7, 5)) + offset
    oracle = preprocessing.StandardScaler().fit(train)
    scaled_train, scaled_other = standardise(train, other)
    np.testing.assert_array_equal(scaled_train, oracle.transform(train))
    np.testing.assert_array_equal(scaled_other, oracle.transform(other))
    np.testing.assert_allclose(scaled_train[:, 3:].std(axis=0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(scaled_other[:, 1], other[:, 1] - offset)
