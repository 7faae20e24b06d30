"""Flat vectors against the module they come from."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parameters_to_vector

from cases import examples
from dims.model.parameters import ParameterVector


class Tied(nn.Module):
    """An auto-encoder that decodes with the weights it encodes with."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(3, 3, bias=False)
        self.decode = nn.Linear(3, 3)
        self.decode.weight = self.encode.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decode(torch.tanh(self.encode(x)))


def network(dtype: torch.dtype = torch.float64) -> nn.ModuleDict:
    return nn.ModuleDict(
        {"head": nn.Linear(2, 3), "header": nn.Linear(3, 1), "norm": nn.BatchNorm1d(3)}
    ).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_vector_is_that_of_torch_and_comes_back_as_the_same_tensors(dtype):
    model = network(dtype)
    vector = ParameterVector(model)
    expected = parameters_to_vector(model.parameters())
    assert vector.dtype == dtype
    assert vector.size == expected.numel()
    assert torch.equal(vector.initial, expected)
    pieces = vector.unflatten(vector.initial)
    for name, parameter in model.named_parameters():
        assert torch.equal(pieces[name], parameter)
    assert set(pieces) == dict(model.named_parameters()).keys()  # buffers are no part of it


@settings(deadline=None, max_examples=examples(30))
@given(
    shapes=st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=5),
    rows=st.integers(1, 3),
)
def test_rows_survive_the_round_trip(shapes, rows):
    module = nn.ParameterList([nn.Parameter(torch.randn(shape)) for shape in shapes])
    vector = ParameterVector(module)
    thetas = torch.randn(rows, vector.size)
    pieces = vector.unflatten(thetas)
    for piece, shape in zip(pieces.values(), shapes, strict=True):
        assert piece.shape == (rows, *shape)
        assert piece.data_ptr() >= thetas.data_ptr()  # a view into θ
    for row in range(rows):
        one = {name: piece[row] for name, piece in pieces.items()}
        assert torch.equal(vector.flatten(one), thetas[row])


def test_slices_cut_what_unflatten_cuts():
    vector = ParameterVector(network())
    theta = torch.randn(vector.size, dtype=torch.float64)
    pieces = vector.unflatten(theta)
    for name, where in vector.slices().items():
        assert torch.equal(theta[where], pieces[name].reshape(-1))
    covered = [i for where in vector.slices().values() for i in range(vector.size)[where]]
    assert covered == list(range(vector.size))


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (None, ["head.weight", "head.bias", "header.weight", "header.bias"]),
        ("head", ["head.weight", "head.bias"]),  # not "header"
        ("head.bias", ["head.bias"]),
        (["header", "head.bias"], ["head.bias", "header.weight", "header.bias"]),
        (lambda name: name.endswith("bias"), ["head.bias", "header.bias"]),
    ],
)
def test_subsets_in_the_order_of_the_module(selection, expected):
    model = network()
    model["norm"].requires_grad_(False)
    assert list(ParameterVector(model, selection).names) == expected


def test_frozen_parameters_stay_out():
    model = network()
    model["head"].requires_grad_(False)
    names = ParameterVector(model).names
    assert names == ("header.weight", "header.bias", "norm.weight", "norm.bias")
    with pytest.raises(ValueError, match="'head' names no trainable parameter"):
        ParameterVector(model, "head")


def test_a_tied_weight_appears_once():
    model = Tied()
    vector = ParameterVector(model)
    assert vector.names == ("encode.weight", "decode.bias")
    assert vector.size == 9 + 3


@pytest.mark.parametrize("model", [nn.Linear(2, 1, bias=False), nn.Linear(2, 1)])
def test_the_vector_keeps_its_own_copy(model):
    vector = ParameterVector(model)
    before = vector.initial.clone()
    with torch.no_grad():
        model.weight.zero_()
    assert torch.equal(vector.initial, before)
    assert not vector.initial.requires_grad


def test_a_model_without_trainable_parameters_is_refused():
    for model in (nn.ReLU(), nn.Linear(2, 1).requires_grad_(False)):
        with pytest.raises(ValueError, match=r"model: .* requires_grad=True"):
            ParameterVector(model)


def test_selections_that_name_nothing_are_refused():
    with pytest.raises(ValueError, match=r"parameters: 'body' .*head\.weight"):
        ParameterVector(network(), ["head", "body"])
    for empty in ([], lambda name: False):
        with pytest.raises(ValueError, match="parameters: the selection is empty"):
            ParameterVector(network(), empty)


def test_mixed_and_complex_precisions_are_refused():
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1).double())
    with pytest.raises(ValueError, match=r"model: .*model\.to\("):
        ParameterVector(mixed)
    assert ParameterVector(mixed, "1").dtype == torch.float64
    with pytest.raises(TypeError, match=r"model: .*complex64"):
        ParameterVector(nn.ParameterList([nn.Parameter(torch.zeros(2, dtype=torch.complex64))]))
