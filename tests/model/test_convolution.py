"""A convolution as a matrix is the convolution."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import dims
from dims.model.torch_support.convolution import apply_by_rows, use_matrices

LAYERS = [
    nn.Conv2d(3, 4, 3),
    nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 2), bias=False),
    nn.Conv2d(3, 2, 2, dilation=2),
]


@pytest.mark.parametrize("layer", LAYERS)
def test_outputs_and_gradients_equal_those_of_the_convolution(layer: nn.Conv2d) -> None:
    layer = copy.deepcopy(layer).double()
    images = torch.randn(5, 3, 7, 6, dtype=torch.float64, requires_grad=True)
    inputs = [images, *layer.parameters()]
    expected, found = layer(images), apply_by_rows(layer, images)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad((expected * weights).sum(), inputs),
        torch.autograd.grad((found * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


class ByMatrix(nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return apply_by_rows(self, input)


def test_rows_of_weights_are_batched() -> None:
    layer = ByMatrix(1, 2, 3, bias=False).double()
    weights = torch.randn(4, *layer.weight.shape, dtype=torch.float64)
    images = torch.randn(5, 1, 6, 6, dtype=torch.float64)
    found = torch.vmap(lambda w: torch.func.functional_call(layer, {"weight": w}, (images,)))(
        weights
    )
    expected = torch.stack([nn.functional.conv2d(images, w) for w in weights])
    torch.testing.assert_close(found, expected)


def test_only_the_copy_is_changed_and_names_stay() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 2)).double()
    data = (torch.randn(4, 1, 6, 6, dtype=torch.float64), torch.tensor([0, 1, 0, 1]))
    surface = dims.LossSurface(model, data, "classification")
    assert type(model[0]) is nn.Conv2d
    assert isinstance(surface.module[0], nn.Conv2d)
    assert list(surface.module.state_dict()) == list(model.state_dict())


def test_convolutions_of_another_kind_are_left_alone() -> None:
    layers = nn.ModuleList(
        [nn.Conv2d(2, 2, 3, groups=2), nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular")]
    )
    use_matrices(layers)
    assert all(type(layer) is nn.Conv2d for layer in layers)
