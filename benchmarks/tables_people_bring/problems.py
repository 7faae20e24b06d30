"""Tables of different kinds, each with rows to learn from and fresh ones to judge by."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from sklearn import datasets

Rows = tuple[np.ndarray, np.ndarray]


class Problem(NamedTuple):
    """How many rows are learned from, and a function of a seed that returns these and others."""

    task: str
    rows: int
    make: Callable[[RandomState, int], tuple[Rows, Rows]]


def _split(load: Callable[[], Rows]) -> Callable[[RandomState, int], tuple[Rows, Rows]]:
    """Random rows of a given table; all others are fresh."""

    def make(random: RandomState, rows: int) -> tuple[Rows, Rows]:
        x, y = load()
        order = random.permutation(len(y))
        known, fresh = order[:rows], order[rows:]
        return (x[known], y[known]), (x[fresh], y[fresh])

    return make


def _drawn(
    draw: Callable[[RandomState, int], Rows],
) -> Callable[[RandomState, int], tuple[Rows, Rows]]:
    """Rows of a known distribution, and a thousand fresh ones."""
    return lambda random, rows: (draw(random, rows), draw(random, 1000))


def _yacht() -> Rows:
    with np.load(Path(os.environ["DIMS_DATA"]) / "uci_regression" / "yacht.npz") as stored:
        return stored["inputs"].astype(float), stored["targets"].astype(float)


def _sine(random: RandomState, rows: int) -> Rows:
    x = random.uniform(-3, 3, (rows, 1))
    return x, np.sin(x[:, 0]) + 0.3 * random.randn(rows)


def _wide(random: RandomState, rows: int) -> Rows:
    """Thirty columns, of which two matter, in a table that is hardly longer."""
    x = random.randn(rows, 30)
    return x, x[:, 0] - x[:, 1] + random.randn(rows)


def _weak(random: RandomState, rows: int) -> Rows:
    """A twentieth of the variance can be explained."""
    x = random.randn(rows, 4)
    return x, x[:, 0] + np.sqrt(19) * random.randn(rows)


def _outliers(random: RandomState, rows: int) -> Rows:
    """Prices: skewed, with a few very high ones."""
    x = random.lognormal(0, 1, (rows, 3))
    return x, 100 * x[:, 0] * random.lognormal(0, 0.5, rows) + 10 * x[:, 1]


def _friedman(random: RandomState, rows: int) -> Rows:
    return datasets.make_friedman1(rows, noise=1.0, random_state=random)


def _rare(random: RandomState, rows: int) -> Rows:
    """About one row in twelve is of the rarer class."""
    x = random.randn(rows, 5)
    chance = 1 / (1 + np.exp(-(2 * x[:, 0] + x[:, 1] - 4)))
    return x, (random.uniform(size=rows) < chance).astype(int)


def _noise(random: RandomState, rows: int) -> Rows:
    return random.randn(rows, 5), random.randn(rows)


def _noise_classes(random: RandomState, rows: int) -> Rows:
    return random.randn(rows, 5), random.randint(3, size=rows)


PROBLEMS = {
    "sine, 1 column": Problem("regression", 30, _drawn(_sine)),
    "wide, 30 columns": Problem("regression", 60, _drawn(_wide)),
    "weak signal": Problem("regression", 150, _drawn(_weak)),
    "skewed prices": Problem("regression", 200, _drawn(_outliers)),
    "yacht": Problem("regression", 100, _split(_yacht)),
    "diabetes": Problem("regression", 300, _split(lambda: datasets.load_diabetes(return_X_y=True))),
    "friedman": Problem("regression", 3000, _drawn(_friedman)),
    "iris": Problem("classification", 40, _split(lambda: datasets.load_iris(return_X_y=True))),
    "wine": Problem("classification", 100, _split(lambda: datasets.load_wine(return_X_y=True))),
    "breast cancer": Problem(
        "classification", 300, _split(lambda: datasets.load_breast_cancer(return_X_y=True))
    ),
    "rare class": Problem("classification", 250, _drawn(_rare)),
    "noise, 40 rows": Problem("regression", 40, _drawn(_noise)),
    "noise, 300 rows": Problem("regression", 300, _drawn(_noise)),
    "noise classes, 40 rows": Problem("classification", 40, _drawn(_noise_classes)),
    "noise classes, 300 rows": Problem("classification", 300, _drawn(_noise_classes)),
}
