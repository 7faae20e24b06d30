"""Training data in every form that torch users have it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from dims.model.training_data import TrainingData, collect, describe_inputs

X = torch.arange(14, dtype=torch.float64).reshape(7, 2)
Y = torch.arange(7) % 3
WORDS = torch.arange(21).reshape(7, 3)


class Structured(Dataset):
    """Points whose inputs are a dict or a list of two tensors; targets are plain numbers."""

    def __init__(self, kind: type, length: int = 7) -> None:
        self.kind, self.length = kind, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        parts = {"x": X[index], "words": WORDS[index]}
        return (parts if self.kind is dict else list(parts.values())), int(Y[index])


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


def gather(data: Any, dtype: torch.dtype = torch.float64) -> TrainingData:
    return collect(data, torch.device("cpu"), dtype)


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        [X, Y],
        TrainingData(X, Y),
        (X.numpy(), Y.numpy()),
        TensorDataset(X, Y),
        DataLoader(TensorDataset(X, Y), batch_size=3),
        Stream(),
        DataLoader(Stream(), batch_size=2),
    ],
)
def test_all_forms_give_the_same_tensors(data):
    inputs, targets = gather(data)
    assert torch.equal(inputs, X)
    assert torch.equal(targets, Y)


def test_a_shuffled_loader_keeps_inputs_and_targets_together():
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(TensorDataset(X, Y), batch_size=2, shuffle=True, generator=generator)
    inputs, targets = gather(loader)
    assert not torch.equal(inputs, X)
    order = (inputs[:, 0] / 2).long()
    assert sorted(order.tolist()) == list(range(7))
    assert torch.equal(targets, Y[order])


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: DataLoader(d, batch_size=4)])
def test_dict_and_list_inputs_of_a_dataset(wrap):
    named, targets = gather(wrap(Structured(dict)))
    assert torch.equal(named["x"], X)
    assert torch.equal(named["words"], WORDS)
    assert torch.equal(targets, Y)
    listed, _ = gather(wrap(Structured(list)))
    assert torch.equal(listed[0], X)
    assert torch.equal(listed[1], WORDS)


def test_floats_take_the_precision_of_the_model_and_integers_stay():
    inputs, targets = gather(({"x": X, "words": WORDS}, Y), torch.float32)
    assert inputs["x"].dtype == torch.float32
    assert inputs["words"].dtype == torch.int64
    assert targets.dtype == torch.int64
    assert gather((X.float(), X[:, 0].half())).targets.dtype == torch.float64


def test_nothing_of_the_caller_is_changed():
    inputs = {"x": X.clone(), "words": WORDS.clone()}
    gather((inputs, Y), torch.float32)
    assert inputs["x"].dtype == torch.float64
    assert torch.equal(inputs["x"], X)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_chunks_cover_the_points_in_order(size):
    data = gather(({"x": X, "words": WORDS}, Y))
    parts = list(data.chunks(size))
    assert max(len(targets) for _, targets in parts) <= size
    assert torch.equal(torch.cat([targets for _, targets in parts]), Y)
    assert torch.equal(torch.cat([inputs["words"] for inputs, _ in parts]), WORDS)
    for inputs, targets in parts:
        assert len(inputs["x"]) == len(targets)


@pytest.mark.parametrize(
    "data",
    [
        (X[:0], Y[:0]),
        (X, Y[:0]),
        (X, torch.tensor(1)),
        TensorDataset(X[:0], Y[:0]),
        Structured(dict, length=0),
        DataLoader(TensorDataset(X[:0], Y[:0])),
    ],
)
def test_empty_data_is_refused(data):
    with pytest.raises(ValueError, match="data: it is empty; give at least one point"):
        gather(data)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="data: 7 inputs but 6 targets"):
        gather((X, Y[:6]))
    with pytest.raises(ValueError, match=r"inputs: .*different lengths \[6, 7\]"):
        gather(([X, WORDS[:6]], Y))
    with pytest.raises(ValueError, match="inputs: a tensor without a points dimension"):
        gather(([X, torch.tensor(1.0)], Y))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_inputs_that_are_not_finite_are_refused(bad):
    broken = X.clone()
    broken[3, 1] = bad
    for inputs in (broken, [X, broken], {"x": broken}):
        with pytest.raises(ValueError, match="inputs: contain NaN or infinite"):
            gather((inputs, Y))


def test_other_things_are_refused_with_a_word_on_what_is_wanted():
    for data in (X, (X, Y, Y), "train.csv", None, np.zeros((3, 2))):
        with pytest.raises(TypeError, match=r"data: expected a pair .* Dataset or a DataLoader"):
            gather(data)
    with pytest.raises(TypeError, match=r"data: each element must be a pair"):
        gather(TensorDataset(X))


def test_a_description_says_what_one_point_is():
    images: Tensor = torch.zeros(2, 1, 28, 28)
    assert describe_inputs(images) == "float[1,28,28]"
    assert describe_inputs(torch.zeros(5)) == "float[]"
    assert describe_inputs({"x": X, "words": WORDS}) == {"x": "float[2]", "words": "int64[3]"}
    assert describe_inputs([X, WORDS]) == ["float[2]", "int64[3]"]
