"""Six UCI classification tasks, as published (`bnn-predictions`) or put right (`clean`)."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from dims_paper.datasets.locate import find
from dims_paper.datasets.splits import Split, to_split
from dims_paper.datasets.text import read_labelled, read_matrix

Protocol = Literal["bnn-predictions", "clean"]

UCI_NAMES: Final = ("vehicle", "glass", "ionosphere", "waveform", "australian", "breast_cancer")

_PRESPLIT: Final = {
    "australian": "australian_presplit/australian_scale",
    "breast_cancer": "breast_cancer_scale_presplit/breast_cancer_scale",
}

Table = tuple[NDArray[np.float64], NDArray[Any]]  # labels are numbers or words


def load_uci(
    name: str,
    seed: int,
    protocol: Protocol = "bnn-predictions",
    *,
    dtype: torch.dtype = torch.float64,
) -> Split:
    """One of `UCI_NAMES`, split 70/15/15 by the seed and scaled by its training part.

    `bnn-predictions` reads the very files of the published experiments: breast_cancer is
    Wisconsin (original) with the patient's Id left in as a feature, waveform a sample of 1000
    rows, australian already scaled to [-1, 1]. `clean` reads unscaled tables without an Id:
    breast_cancer is Wisconsin (diagnostic), waveform has all 5000 rows. Split and scaling are
    the same for both.
    """
    if name not in UCI_NAMES:
        raise ValueError(f"name must be one of {', '.join(UCI_NAMES)}, got {name!r}")
    if protocol not in get_args(Protocol):
        raise ValueError(f"protocol must be 'bnn-predictions' or 'clean', got {protocol!r}")
    inputs, labels = _read_published(name) if protocol == "bnn-predictions" else _read_clean(name)
    class_names, targets = np.unique(labels, return_inverse=True)
    return to_split(
        inputs,
        targets.astype(np.int64),
        tuple(str(label) for label in class_names),
        seed=seed,
        dtype=dtype,
    )


def _read_published(name: str) -> Table:
    folder = "uci_bnn_predictions"
    if name == "ionosphere":
        table = read_matrix(find(f"{folder}/ionosphere/ionosphere.data"), delimiter=",")
        inputs, labels = table[:, :-1], table[:, -1]
    elif name in _PRESPLIT:
        stem = f"{folder}/{_PRESPLIT[name]}"
        inputs = _merge(f"{stem}_X_tr.csv", f"{stem}_X_te.csv")
        labels = _merge(f"{stem}_y_tr.csv", f"{stem}_y_te.csv").ravel()
    else:
        inputs = read_matrix(find(f"{folder}/{name}/X.txt"))
        labels = read_matrix(find(f"{folder}/{name}/Y.txt")).ravel()
    if len(inputs) != len(labels):
        raise ValueError(f"{folder}, {name}: {len(inputs)} rows but {len(labels)} labels")
    if np.any(labels != np.round(labels)) or np.any(np.abs(labels) > 1000):
        raise ValueError(f"{folder}, {name}: the class labels are not small whole numbers")
    return inputs, labels.astype(np.int64)


def _merge(train_path: str, test_path: str) -> NDArray[np.float64]:
    train, test = read_matrix(find(train_path)), read_matrix(find(test_path))
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"{train_path} and {test_path} have different numbers of columns")
    return np.concatenate([train, test])


def _read_clean(name: str) -> Table:
    file = "breast_cancer_wdbc" if name == "breast_cancer" else name
    inputs, labels = read_labelled(find(f"uci/{file}.csv"))
    return inputs, np.array(labels, dtype=np.str_)
