"""Nine UCI regression sets with the train-test splits of the published comparisons."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dims_paper.datasets.locate import find

REGRESSION_NAMES: Final = (
    "boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine_red", "yacht",
)  # fmt: skip

Table = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RegressionSplit:
    """Inputs (N, D) and targets (N, 1), both standardised by the training part.

    `target_scale` is the standard deviation of the training targets: RMSE times it, and NLL plus
    its logarithm, are in the units of the data.
    """

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    target_scale: float


@dataclass(frozen=True)
class Published:
    """A published result: means over the splits and their standard errors; None: not reported."""

    dataset: str
    method: str
    nll: float
    nll_error: float
    rmse: float | None
    rmse_error: float | None


def split_count(name: str) -> int:
    """How many splits a set has: 20, protein 5."""
    with np.load(find(f"uci_regression/{_known(name)}.npz"), allow_pickle=False) as file:
        return sum(key.startswith("test_") for key in file.files)


def load_regression(name: str, split: int, dtype: torch.dtype = torch.float64) -> RegressionSplit:
    """One of `REGRESSION_NAMES` and one of its published splits."""
    path = find(f"uci_regression/{_known(name)}.npz")
    with np.load(path, allow_pickle=False) as file:
        if f"test_{split}" not in file.files:
            last = sum(key.startswith("test_") for key in file.files) - 1
            raise ValueError(f"split must lie between 0 and {last}, got {split!r}")
        inputs, targets = file["inputs"], file["targets"].reshape(-1, 1)
        chosen = file[f"test_{split}"]
    testing = np.zeros(len(inputs), dtype=bool)
    testing[chosen] = True
    x, _ = _standardised(inputs, ~testing)
    y, scale = _standardised(targets, ~testing)
    parts = []
    for rows in (~testing, testing):
        parts.append((torch.from_numpy(x[rows]).to(dtype), torch.from_numpy(y[rows]).to(dtype)))
    return RegressionSplit(parts[0], parts[1], float(scale[0]))


def _standardised(table: Table, training: NDArray[np.bool_]) -> tuple[Table, Table]:
    """By mean and standard deviation of the training rows; a constant column becomes 0."""
    scale = table[training].std(0)
    scale = np.where(scale > 0, scale, 1.0)
    return (table - table[training].mean(0)) / scale, scale


def load_published() -> list[Published]:
    """The results beside which ours are set, with standard errors.

    Deep ensembles and NGBoost report standard deviations over the splits, which are divided by the
    root of their number. An error printed as 0.00 counts as 0.005, half of the last digit.
    """
    path = find("uci_regression/published.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [_published(row) for row in rows]


def _published(row: dict[str, str]) -> Published:
    spread = row["method"].startswith(("Deep ensemble", "NGBoost"))
    splits = 5 if row["dataset"] == "protein" else 20

    def error(text: str) -> float | None:
        if not text:
            return None
        printed = max(float(text), 0.005)
        return printed / splits**0.5 if spread else printed

    nll_error = error(row["nll_error"])
    assert nll_error is not None
    rmse = float(row["rmse"]) if row["rmse"] else None
    return Published(
        row["dataset"], row["method"], float(row["nll"]), nll_error, rmse, error(row["rmse_error"])
    )


def _known(name: str) -> str:
    if name not in REGRESSION_NAMES:
        raise ValueError(f"name must be one of {', '.join(REGRESSION_NAMES)}, got {name!r}")
    return name
