"""Data that changes from pass to pass: announced, and read a fixed number of times when asked."""

# ruff: noqa: NPY002  (augmentations draw from numpy's global generator, as do many programs)

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

import dims
from dims.errors import AugmentationWarning
from dims.model.checks_data import warn_of_random_data
from dims.model.training_data import collect

X = torch.linspace(-1, 1, 12, dtype=torch.float64).unsqueeze(-1)
Y = 2 * X


class Changed(Dataset):
    """Points to whose inputs a number is added."""

    def __init__(self, shift: Callable[[], float]) -> None:
        self.shift = shift

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return X[row] + self.shift(), Y[row]


def torch_shift() -> float:
    return float(torch.randn(()))


def seldom() -> float:
    return 1.0 if random.random() < 1e-9 else 0.0


OWN = np.random.default_rng(0)


def jitter(points: list[Any]) -> Any:
    x, y = default_collate(points)
    return x + torch.randn_like(x), y


def read(data: Any) -> dims.LossSurface:
    return dims.LossSurface(nn.Linear(1, 1).double().eval(), data, dims.Gaussian(0.5))


@pytest.mark.parametrize(
    "data",
    [
        Changed(torch_shift),
        DataLoader(Changed(torch_shift), batch_size=5, shuffle=True),
        Changed(random.random),
        Changed(np.random.rand),
        Changed(OWN.random),
        Changed(seldom),
        DataLoader(TensorDataset(X, Y), batch_size=5, collate_fn=jitter),
        DataLoader(
            TensorDataset(X, Y), sampler=RandomSampler(range(12), replacement=True, num_samples=12)
        ),
        DataLoader(TensorDataset(X, Y), sampler=WeightedRandomSampler([1.0] * 12, 12)),
    ],
    ids=["dataset", "loader", "random", "numpy", "own", "seldom", "collate", "sampler", "weighted"],
)
def test_random_data_is_announced(data: Any) -> None:
    with pytest.warns(AugmentationWarning, match=r"One pass is read.*dims\.augmented"):
        read(data)


def test_data_that_stays_is_not_announced_and_generators_stay() -> None:
    kept = X.clone()
    kept[3] = torch.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", AugmentationWarning)
        read(DataLoader(TensorDataset(X, Y), batch_size=5, shuffle=True))
        read(TensorDataset(X, Y))
        with pytest.raises(ValueError, match="NaN"):  # NaN is not a change
            read(TensorDataset(kept, Y))
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    for shift in (random.random, np.random.rand, torch_shift):
        dims.augmented(DataLoader(Changed(shift), batch_size=4), passes=2)
        with pytest.warns(AugmentationWarning):
            warn_of_random_data(Changed(shift))
    assert random.getstate() == before[0]
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert torch.equal(torch.get_rng_state(), before[2])


@pytest.mark.parametrize("shift", [torch_shift, random.random, np.random.rand])
def test_augmented_passes_are_different_and_repeatable(shift: Callable[[], float]) -> None:
    loader = DataLoader(Changed(shift), batch_size=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (dims.augmented(loader, passes=3, dtype=torch.float64) for _ in range(2))
        other = dims.augmented(loader, passes=3, seed=1, dtype=torch.float64)
        surface = read(first)
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.targets, Y.repeat(3, 1))
    assert not torch.equal(first.inputs, other.inputs)
    parts = first.inputs.split(12)
    assert not torch.equal(parts[0], parts[1])
    assert surface.points == 36
    assert surface.effective_points == 12


def test_the_loss_is_the_mean_over_the_passes() -> None:
    together = dims.augmented(Changed(torch_shift), passes=4, dtype=torch.float64)
    surface = read(together)
    theta = surface.initial[None]
    alone = [
        dims.LossSurface(surface.module.requires_grad_(), (x, Y), dims.Gaussian(0.5)).value(theta)
        for x in together.inputs.split(12)
    ]
    torch.testing.assert_close(surface.value(theta), torch.stack(alone).mean(0))


def test_passes_of_data_that_does_not_change_leave_the_posterior_as_it_is() -> None:
    plain, repeated = (
        dims.fit(
            nn.Linear(1, 1, dtype=torch.float64).eval().requires_grad_(),
            data,
            "regression",
            prior_precision=1.0,
            noise_std=0.5,
            refine=True,
            tune=True,
        )
        for data in ((X, Y), dims.augmented(TensorDataset(X, Y), passes=3, dtype=torch.float64))
    )
    torch.testing.assert_close(repeated.map_parameters, plain.map_parameters)
    torch.testing.assert_close(repeated.curvature.dense(), plain.curvature.dense())
    assert repeated.log_marginal_likelihood == pytest.approx(plain.log_marginal_likelihood)


def test_a_number_of_passes_that_is_none_is_named(unchecked: None) -> None:
    with pytest.raises(ValueError, match="passes: expected a whole number"):
        dims.augmented(TensorDataset(X, Y), passes=0)


def test_collect_takes_them_as_they_are() -> None:
    together = dims.augmented(TensorDataset(X, Y), passes=2, dtype=torch.float64)
    inputs, targets = collect(together, torch.device("cpu"), torch.float32)
    assert inputs.dtype == targets.dtype == torch.float32
    assert len(inputs) == 24
