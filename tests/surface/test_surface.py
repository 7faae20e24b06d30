"""Surfaces of plain functions against autograd, one row at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import dims


def bumpy(theta: Tensor) -> Tensor:
    return theta.square().sum() + theta.prod().sin() + torch.exp(0.3 * theta[0])


def branching(theta: Tensor) -> Tensor:
    """Its branch depends on data, which vmap cannot batch."""
    return theta.square().sum() if float(theta[0].detach()) > 0 else theta.sin().sum()


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("function", "options"),
    [(bumpy, {}), (bumpy, {"vectorize": False}), (branching, {"vectorize": False})],
)
def test_value_gradient_and_hvp(function, options):
    surface = dims.Surface(function, **options)
    thetas, vectors = randn(5, 3), randn(5, 3, seed=1)
    values, gradients = surface.value_and_grad(thetas)
    again, products = surface.grad_and_hvp(thetas, vectors)
    assert torch.equal(surface.value(thetas), values)
    torch.testing.assert_close(again, gradients)
    for row, theta in enumerate(thetas):
        gradient = torch.func.jacrev(function)(theta)
        hessian = torch.func.jacrev(torch.func.jacrev(function))(theta)
        torch.testing.assert_close(values[row], function(theta))
        torch.testing.assert_close(gradients[row], gradient)
        torch.testing.assert_close(products[row], hessian @ vectors[row])


def test_the_dense_hessian():
    theta = randn(3)
    expected = torch.func.jacrev(torch.func.jacrev(bumpy))(theta)
    torch.testing.assert_close(dims.Surface(bumpy).hessian(theta), expected)


def test_values_are_float64_and_gradients_follow_the_rows():
    surface = dims.Surface(bumpy)
    thetas = randn(2, 3).float()
    values, gradients = surface.value_and_grad(thetas)
    assert values.dtype == torch.float64
    assert surface.value(thetas).dtype == torch.float64
    assert gradients.dtype == torch.float32
    assert surface.grad_and_hvp(thetas, thetas)[1].dtype == torch.float32


@pytest.mark.parametrize(
    "function", [lambda theta: 3 * theta.sum(), lambda theta: 2 * theta[0] + theta[1].square()]
)
def test_directions_without_curvature_have_products_of_zero(function):
    thetas = randn(4, 3)
    gradients, products = dims.Surface(function).grad_and_hvp(thetas, torch.ones_like(thetas))
    dense = torch.func.jacrev(torch.func.jacrev(function))(thetas[0])
    torch.testing.assert_close(products[0], dense.sum(-1))
    torch.testing.assert_close(gradients[0], torch.func.jacrev(function)(thetas[0]))


def test_results_carry_no_graph_whatever_the_mode_of_the_caller():
    thetas = randn(2, 3).requires_grad_()
    surface = dims.Surface(bumpy)
    expected = surface.value_and_grad(thetas.detach())
    with torch.no_grad():
        values, gradients = surface.value_and_grad(thetas)
        products = surface.grad_and_hvp(thetas, thetas.detach())
    assert torch.equal(gradients, expected[1])
    for result in (values, gradients, *products, surface.value(thetas)):
        assert not result.requires_grad
    assert thetas.grad is None


@pytest.mark.parametrize(
    ("function", "error", "reason"),
    [
        (lambda theta: theta.square(), ValueError, r"scalar tensor, got \(3,\).*\.sum\(\)"),
        (lambda theta: theta.sum().unsqueeze(0), ValueError, r"scalar tensor, got \(1,\)"),
        (lambda theta: theta.sum().item(), ValueError, "scalar tensor, got float"),
        (lambda theta: None, ValueError, "scalar tensor, got NoneType"),
        (lambda theta: theta.detach().sum(), ValueError, "does not depend on θ differentiably"),
        (lambda theta: torch.tensor(1.0), ValueError, "does not depend on θ differentiably"),
        (lambda theta: theta.argmax(), TypeError, "real number, got torch.int64"),
        (lambda theta: theta.sum().to(torch.complex64), TypeError, "real number, got torch.comp"),
    ],
)
@pytest.mark.parametrize("vectorize", [True, False])
def test_functions_that_are_no_loss_are_refused(function, error, reason, vectorize):
    surface = dims.Surface(function, vectorize=vectorize)
    thetas = randn(2, 3)
    for call in (surface.value, surface.value_and_grad, lambda t: surface.grad_and_hvp(t, t)):
        with pytest.raises(error, match=f"function: .*{reason}"):
            call(thetas)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_function_or_no_rows_is_refused():
    with pytest.raises(TypeError, match="function: expected a function"):
        dims.Surface(3.0)
    surface = dims.Surface(bumpy)
    for call in (surface.value, surface.value_and_grad, lambda t: surface.grad_and_hvp(t, t)):
        for bad in (torch.zeros(3), torch.zeros(1, 2, 3), torch.zeros(2, 0), torch.tensor(1.0)):
            with pytest.raises(ValueError, match=r"thetas: expected shape \(rows, parameters\)"):
                call(bad)
        for wrong in (torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.bool)):
            with pytest.raises(TypeError, match=r"thetas: .*use \.float\(\)"):
                call(wrong)
        with pytest.raises(TypeError, match="thetas: expected a tensor, got list"):
            call([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="vectors"):
        surface.grad_and_hvp(torch.zeros(2, 3), torch.zeros(2, 2))
    with pytest.raises(ValueError, match="vectors"):
        surface.grad_and_hvp(torch.zeros(2, 3), torch.zeros(1, 3))
