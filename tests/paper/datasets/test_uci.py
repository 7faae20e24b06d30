from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dims_paper.datasets.splits import Split
from dims_paper.datasets.uci import UCI_NAMES, load_uci

# Rows, features and class counts as the README beside the data gives them.
PUBLISHED = {
    "vehicle": (846, 18, 4),
    "glass": (214, 9, 6),
    "ionosphere": (351, 34, 2),
    "waveform": (1000, 21, 3),
    "australian": (690, 14, 2),
    "breast_cancer": (683, 10, 2),
}
CLEAN = {
    "vehicle": (846, 18, {"bus": 218, "opel": 212, "saab": 217, "van": 199}),
    "glass": (214, 9, {"1": 70, "2": 76, "3": 17, "5": 13, "6": 9, "7": 29}),
    "ionosphere": (351, 34, {"b": 126, "g": 225}),
    "waveform": (5000, 21, {"0": 1657, "1": 1647, "2": 1696}),
    "australian": (690, 14, {"0": 383, "1": 307}),
    "breast_cancer": (569, 30, {"benign": 357, "malignant": 212}),
}


def all_targets(split: Split) -> torch.Tensor:
    return torch.cat([split.train_targets, split.test_targets, split.validation_targets])


def published_table(root: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    folder = root / "uci_bnn_predictions"
    if name == "ionosphere":
        table = np.loadtxt(folder / name / "ionosphere.data", delimiter=",")
        return table[:, :-1], table[:, -1]
    if name in ("australian", "breast_cancer"):
        stem = next(path for path in folder.iterdir() if path.name.startswith(name))
        parts = {
            path.stem[-4:]: np.loadtxt(path) for path in sorted(stem.iterdir())
        }  # X_te, X_tr, y_te, y_tr
        inputs = np.concatenate([parts["X_tr"], parts["X_te"]])
        return inputs, np.concatenate([parts["y_tr"], parts["y_te"]])
    return np.loadtxt(folder / name / "X.txt"), np.loadtxt(folder / name / "Y.txt")


@pytest.mark.data
@pytest.mark.parametrize("seed", [0, 1, 230])
@pytest.mark.parametrize("name", UCI_NAMES)
def test_published_protocol_is_that_of_scikit_learn(name: str, seed: int, data_root: Path) -> None:
    model_selection = pytest.importorskip("sklearn.model_selection")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    inputs, targets = published_table(data_root, name)
    x_train, x_rest, y_train, y_rest = model_selection.train_test_split(
        inputs, targets, train_size=0.7, random_state=seed
    )
    x_test, x_validation, y_test, y_validation = model_selection.train_test_split(
        x_rest, y_rest, train_size=0.5, random_state=seed
    )
    scaler = preprocessing.StandardScaler().fit(x_train)

    split = load_uci(name, seed)
    for ours, theirs in (
        (split.train_inputs, scaler.transform(x_train)),
        (split.test_inputs, scaler.transform(x_test)),
        (split.validation_inputs, scaler.transform(x_validation)),
        (split.train_targets, y_train),
        (split.test_targets, y_test),
        (split.validation_targets, y_validation),
    ):
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.data
@pytest.mark.parametrize("name", UCI_NAMES)
def test_published_shapes(name: str) -> None:
    rows, features, classes = PUBLISHED[name]
    split = load_uci(name, 0)
    assert split.train_inputs.shape == (int(0.7 * rows), features)
    assert split.train_inputs.dtype is torch.float64
    assert split.train_targets.dtype is torch.int64
    assert len(all_targets(split)) == rows
    assert split.classes == classes
    assert split.class_names == tuple(str(label) for label in range(classes))
    assert all_targets(split).unique().tolist() == list(range(classes))


@pytest.mark.data
@pytest.mark.usefixtures("unchecked")  # the checker knows strings of one length only
@pytest.mark.parametrize("name", UCI_NAMES)
def test_clean_shapes_and_class_counts(name: str) -> None:
    rows, features, counts = CLEAN[name]
    split = load_uci(name, 3, "clean", dtype=torch.float32)
    assert split.train_inputs.shape == (int(0.7 * rows), features)
    assert split.test_inputs.dtype is torch.float32
    assert split.class_names == tuple(counts)
    assert torch.bincount(all_targets(split)).tolist() == list(counts.values())
    assert len(all_targets(split)) == rows
    means = split.train_inputs.double().mean(dim=0)
    torch.testing.assert_close(means, torch.zeros_like(means), atol=1e-6, rtol=0)


@pytest.mark.data
@pytest.mark.usefixtures("unchecked")
def test_same_rows_under_both_protocols() -> None:
    # The two files of glass hold the same numbers in the same order, so the splits agree.
    published, clean = load_uci("glass", 4), load_uci("glass", 4, "clean")
    torch.testing.assert_close(published.train_inputs, clean.train_inputs)
    assert torch.equal(published.test_targets, clean.test_targets)


@pytest.mark.data
def test_published_peculiarities() -> None:
    # Ionosphere's second column is constant and must come out as zeros, not as nan.
    assert load_uci("ionosphere", 0).train_inputs[:, 1].abs().max() == 0
    # Seeds choose other rows.
    assert not torch.equal(load_uci("vehicle", 0).train_inputs, load_uci("vehicle", 1).train_inputs)


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="name must be one of vehicle, glass"):
        load_uci("iris", 0)
    with pytest.raises(ValueError, match="protocol must be 'bnn-predictions' or 'clean'"):
        load_uci("glass", 0, "dirty")  # type: ignore[arg-type]
