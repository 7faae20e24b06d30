"""KFAC against dense Kronecker products written by hand, and what it does not support."""

from __future__ import annotations

import sys

import pytest
import torch
from curvature_surfaces import LIKELIHOODS, dense_ggn, surface_of
from torch import Tensor, nn

from dims.curvature import fit_curvature
from dims.model.likelihoods import Categorical, Gaussian
from dims.surface.loss import LossSurface
from own_likelihoods import Poisson, SoftplusPoisson


@pytest.mark.parametrize("likelihood", list(LIKELIHOODS))
def test_factors_of_an_mlp_by_hand(likelihood: str) -> None:
    """H_W = Σᵢ(gᵢᵀΛᵢgᵢ) ⊗ mean(aᵢaᵢᵀ), gᵢ the derivatives of the outputs by the layer's output."""
    surface = surface_of("mlp", likelihood)
    theta = surface.initial + 0.2
    tensors = surface.vector.unflatten(theta)
    inputs = surface.data.inputs
    hidden = torch.tanh(inputs @ tensors["0.weight"].T + tensors["0.bias"])
    outputs = hidden @ tensors["2.weight"].T + tensors["2.bias"]
    weights = surface.likelihood.output_hessian(outputs)
    points = len(inputs)
    slope = (1 - hidden.square()).unsqueeze(1) * tensors["2.weight"]  # (N, C, hidden)
    blocks = []
    for derivative, layer_input in (
        (slope, inputs),
        (torch.eye(outputs.shape[1]).double().expand(points, -1, -1), hidden),
    ):
        backward = torch.einsum("nci,ncd,ndj->ij", derivative, weights, derivative)
        forward = layer_input.T @ layer_input / points
        blocks += [torch.kron(backward.contiguous(), forward), backward]
    expected = torch.block_diag(*blocks)
    actual = fit_curvature(surface, theta, "kronecker").dense()
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_one_point_makes_a_linear_layer_exact() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    surface = LossSurface(model, (torch.randn(1, 3), torch.randn(1, 2)), Gaussian(0.3))
    exact = dense_ggn(surface, surface.initial)
    actual = fit_curvature(surface, surface.initial, "kronecker").dense()
    torch.testing.assert_close(actual[:6, :6], exact[:6, :6], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(actual[6:, 6:], exact[6:, 6:], rtol=1e-10, atol=1e-10)


def test_chunks_of_data_add_up() -> None:
    one = surface_of("cnn", "categorical")
    small = surface_of("cnn", "categorical", memory_budget=8192)
    fits = [fit_curvature(s, one.initial, "kronecker").dense() for s in (one, small)]
    torch.testing.assert_close(fits[0], fits[1], rtol=1e-10, atol=1e-10)


def test_the_model_is_left_alone() -> None:
    surface = surface_of("mlp", "gaussian")
    before = surface.initial
    fit_curvature(surface, surface.initial + 1, "kronecker")
    assert torch.equal(surface.initial, before)
    assert not any(p.requires_grad for p in surface.module.parameters())


def test_frozen_weights_are_left_out() -> None:
    surface = surface_of("frozen", "gaussian")
    assert fit_curvature(surface, surface.initial, "kronecker").dense().shape == (17, 17)


@pytest.mark.parametrize(
    ("name", "layer"),
    [("layernorm", "LayerNorm"), ("batchnorm", "BatchNorm1d"), ("embedding", "Embedding")],
)
def test_unsupported_layers_are_named(name: str, layer: str) -> None:
    surface = surface_of(name, "categorical")
    with pytest.raises(ValueError, match=rf"{layer}.*low_rank") as caught:
        fit_curvature(surface, surface.initial, "kronecker")
    assert "'1'" in str(caught.value) or "'embedding'" in str(caught.value)


def test_a_frozen_unsupported_layer_is_no_obstacle() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 2))
    model[1].requires_grad_(False)
    surface = LossSurface(model, (torch.randn(9, 4), torch.randn(9, 2)), Gaussian())
    assert fit_curvature(surface, surface.initial, "kronecker").size == surface.size


class Twice(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        if tied:
            self.second.weight = self.first.weight
        self.tied = tied

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        return self.second(hidden) if self.tied else self.first(hidden)


@pytest.mark.parametrize(("tied", "why"), [(True, "shares"), (False, "called 2 times")])
def test_layers_that_are_used_twice_are_refused(tied: bool, why: str) -> None:
    surface = LossSurface(Twice(tied), (torch.randn(4, 3), torch.randn(4, 3)), Gaussian())
    with pytest.raises(ValueError, match=why):
        fit_curvature(surface, surface.initial, "kronecker")


class PlainCategorical(Categorical):
    """Without a torch loss: KFAC goes by the roots of its output Hessian."""

    name = "plain categorical"

    def torch_loss(self) -> None:  # type: ignore[override]
        return None


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_any_likelihood_is_that_of_the_known_loss(name: str) -> None:
    surface = surface_of(name, "categorical")
    plain = surface.with_settings(likelihood=PlainCategorical())
    theta = surface.initial + 0.1
    expected, actual = (fit_curvature(s, theta, "kronecker").dense() for s in (surface, plain))
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_one_point_makes_a_linear_layer_exact_for_any_likelihood() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    x = torch.randn(1, 3, dtype=torch.float64)
    surface = LossSurface(model, (x, torch.ones(1, 2)), SoftplusPoisson())
    outputs = model(x)[0].detach()
    # The Fisher information of a rate μ(f) is μ'²/μ, and the GGN of the layer Λ ⊗ x·xᵀ.
    weights = torch.diag(outputs.sigmoid().square() / nn.functional.softplus(outputs))
    exact = torch.block_diag(torch.kron(weights, x.T @ x), weights)
    actual = fit_curvature(surface, surface.initial, "kronecker").dense()
    torch.testing.assert_close(actual, exact, rtol=1e-10, atol=1e-10)
    full = fit_curvature(surface, surface.initial, "full").dense()
    torch.testing.assert_close(full[:6, :6], exact[:6, :6], rtol=1e-10, atol=1e-10)


def test_a_likelihood_of_ones_own() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(9, 2, dtype=torch.float64)
    model = nn.Linear(2, 1, bias=False).double()
    surface = LossSurface(model, (inputs, torch.ones(9, 1)), Poisson())
    rate = (inputs @ surface.initial).exp()
    factored = rate.sum() * inputs.T @ inputs / 9
    actual = fit_curvature(surface, surface.initial, "kronecker").dense()
    torch.testing.assert_close(actual, factored, rtol=1e-10, atol=1e-10)
    expected = inputs.T @ (rate.unsqueeze(-1) * inputs)
    actual = fit_curvature(surface, surface.initial, "full").dense()
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_without_curvlinops_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "curvlinops", None)
    surface = surface_of()
    with pytest.raises(ImportError, match=r"dims\[kfac\]"):
        fit_curvature(surface, surface.initial, "kronecker")
