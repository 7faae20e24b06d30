"""GELU for compiled gradients: values and slopes of torch, never where curvature is asked for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dims import LossSurface
from dims.model.torch_support.activations import with_cheap_gelu


def network(dtype: torch.dtype, activation: nn.Module | None = None) -> nn.Sequential:
    torch.manual_seed(0)
    hidden = activation or nn.GELU()
    return nn.Sequential(nn.Linear(2, 6), hidden, nn.Linear(6, 3)).to(dtype)


def surface(dtype: torch.dtype) -> LossSurface:
    generator = torch.Generator().manual_seed(1)
    inputs = 3 * torch.randn(40, 2, generator=generator).to(dtype)
    targets = torch.randint(0, 3, (40,), generator=generator)
    return LossSurface(network(dtype), (inputs, targets), "classification")


def test_values_and_slopes_are_those_of_gelu() -> None:
    x = torch.linspace(-15, 15, 100_001, requires_grad=True)
    value = with_cheap_gelu(nn.GELU())(x)
    (slope,) = torch.autograd.grad(value.sum(), x)
    exact = x.detach().double().requires_grad_()
    expected = nn.functional.gelu(exact)
    (expected_slope,) = torch.autograd.grad(expected.sum(), exact)
    scale = exact.detach().abs().clamp(min=1)
    assert float(((value - expected).detach().abs() / scale).max()) < 2e-7
    assert float((slope - expected_slope).abs().max()) < 4e-7


def test_other_modules_are_left_as_they_are() -> None:
    for module in (network(torch.float32, nn.Tanh()), network(torch.float32, nn.GELU("tanh"))):
        assert with_cheap_gelu(module) is module


def test_the_copy_has_the_tensors_of_the_module() -> None:
    module = network(torch.float32)
    copied = with_cheap_gelu(module)
    assert copied is not module
    assert type(module[1]) is nn.GELU
    pairs = zip(module.parameters(), copied.parameters(), strict=True)
    assert all(ours is theirs for ours, theirs in pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_the_same_and_curvature_is_not_touched(dtype: torch.dtype) -> None:
    loss, exact = surface(dtype), surface(torch.float64)
    generator = torch.Generator().manual_seed(2)
    thetas = torch.randn(3, loss.size, generator=generator).to(dtype)
    value, gradient = loss._traceable_gradient(thetas, *loss.data)
    expected = exact._data_gradient(thetas.double(), *exact.data)
    accuracy = 2e-6 if dtype is torch.float32 else 1e-12
    torch.testing.assert_close(value, expected[0], rtol=accuracy, atol=0)
    size = float(expected[1].abs().max())
    torch.testing.assert_close(gradient.double(), expected[1], rtol=0, atol=accuracy * size)
    vectors = torch.randn(3, loss.size, generator=generator).to(dtype)
    _, product = loss.grad_and_hvp(thetas, vectors)
    _, expected_product = exact.grad_and_hvp(thetas.double(), vectors.double())
    size = float(expected_product.abs().max())
    torch.testing.assert_close(product.double(), expected_product, rtol=0, atol=2e-5 * size)
