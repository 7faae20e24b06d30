"""The loss of a network against plain autograd on the module itself, one row at a time."""

from __future__ import annotations

import copy
import gc
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_parameters import Tied
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import dims
from cases import diagonal

Loss = Callable[[Tensor], Tensor]


class Words(nn.Module):
    """Embedded words and numbers, given as a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 3)
        self.numbers = nn.Linear(2, 3)
        self.head = nn.Linear(3, 3)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        hidden = self.words(inputs["words"]).mean(1) + self.numbers(inputs["numbers"])
        return self.head(torch.tanh(hidden))


class Attention(nn.Module):
    """Takes a sequence and the position to read off, given as a list."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, sequence: Tensor, read: Tensor) -> Tensor:
        mixed, _ = self.attention(sequence, sequence, sequence, need_weights=False)
        return self.head(mixed.gather(1, read[:, None, None].expand(-1, 1, 4)).squeeze(1))


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_statistics(model: nn.Module) -> nn.Module:
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.running_mean = randn(layer.num_features)
            layer.running_var = 0.5 + randn(layer.num_features).square()
    return model


def squares(outputs: Tensor) -> Tensor:
    """−log p of Gaussian noise σ = 0.5 on y = sin(i)."""
    targets = torch.sin(torch.arange(len(outputs), dtype=outputs.dtype)).unsqueeze(-1)
    return (outputs - targets).square().sum() / (2 * 0.5**2)


def labels(points: int, classes: int) -> Tensor:
    return torch.arange(points) % classes


def case(name: str) -> tuple[nn.Module, Any, Tensor, dims.Likelihood, Loss]:
    """A model, inputs, targets, a likelihood, and its loss in plain torch."""
    torch.manual_seed(1)
    x = randn(9, 3)
    sine = torch.sin(torch.arange(9, dtype=torch.float64))
    gaussian = dims.Gaussian(0.5)

    def crossed(outputs: Tensor) -> Tensor:
        targets = labels(len(outputs), outputs.shape[-1])
        return functional.cross_entropy(outputs, targets, reduction="sum", label_smoothing=0.1)

    def logistic(outputs: Tensor) -> Tensor:
        targets = labels(len(outputs), 2).to(outputs.dtype)
        return functional.binary_cross_entropy_with_logits(
            outputs.squeeze(-1), targets, reduction="sum"
        )

    if name == "mlp":
        model = nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 1))
        return model.double(), x, sine, gaussian, squares
    if name == "tied":
        model = nn.Sequential(Tied(), nn.Linear(3, 1))
        return model.double(), x, sine, gaussian, squares
    if name == "layer norm":
        model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 1))
        return model.double(), x, labels(9, 2), dims.Bernoulli(), logistic
    if name == "batch norm":
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))
        model = with_statistics(model.double()).eval()
        return model, x, labels(9, 3), dims.Categorical(0.1), crossed
    if name == "cnn":
        model = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.Softplus(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3)
        )
        return model.double(), randn(9, 1, 6, 6), labels(9, 3), dims.Categorical(0.1), crossed
    if name == "words":
        inputs = {"words": labels(36, 5).reshape(9, 4), "numbers": randn(9, 2)}
        return Words().double(), inputs, labels(9, 3), dims.Categorical(0.1), crossed
    inputs = [randn(9, 3, 4), labels(9, 3)]
    return Attention().double(), inputs, labels(9, 2), dims.Categorical(0.1), crossed


CASES = ("mlp", "tied", "layer norm", "batch norm", "cnn", "words", "attention")
PRIOR = 0.7


def call(model: nn.Module, inputs: Any) -> Tensor:
    return model(*inputs) if isinstance(inputs, list) else model(inputs)


def plain(
    model: nn.Module, inputs: Any, loss: Loss, theta: Tensor, vector: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, gradient and Hessian-vector product of the module that holds θ, by double backward."""
    model = copy.deepcopy(model)
    nn.utils.vector_to_parameters(theta, model.parameters())
    parameters = list(model.parameters())
    with sdpa_kernel(SDPBackend.MATH):
        value = loss(call(model, inputs))
        value = value + 0.5 * PRIOR * sum(p.square().sum() for p in parameters)
        pieces = torch.autograd.grad(value, parameters, create_graph=True)
        gradient = torch.cat([piece.reshape(-1) for piece in pieces])
        pieces = torch.autograd.grad(gradient @ vector, parameters)
    product = torch.cat([piece.reshape(-1) for piece in pieces])
    return value.detach(), gradient.detach(), product


@pytest.mark.parametrize(("name", "budget"), diagonal(CASES, [2**30, 2000, 1]))
def test_value_gradient_and_hvp_whatever_the_budget(name, budget):
    model, inputs, targets, likelihood, loss = case(name)
    surface = dims.LossSurface(model, (inputs, targets), likelihood, PRIOR, memory_budget=budget)
    thetas = surface.initial + 0.3 * randn(3, surface.size)
    vectors = randn(3, surface.size, seed=1)
    values, gradients = surface.value_and_grad(thetas)
    again, products = surface.grad_and_hvp(thetas, vectors)
    torch.testing.assert_close(surface.value(thetas), values)
    torch.testing.assert_close(again, gradients)
    for row in range(3):
        value, gradient, product = plain(model, inputs, loss, thetas[row], vectors[row])
        torch.testing.assert_close(values[row], value)
        torch.testing.assert_close(gradients[row], gradient, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(products[row], product, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_single_precision_is_near_double(name):
    model, inputs, targets, likelihood, _ = case(name)
    exact = dims.LossSurface(model, (inputs, targets), likelihood, PRIOR)
    surface = dims.LossSurface(
        copy.deepcopy(model).float(), (inputs, targets), likelihood, PRIOR, memory_budget=3000
    )
    assert surface.initial.dtype == torch.float32
    thetas = (exact.initial + 0.3 * randn(2, exact.size)).float()
    values, gradients = surface.value_and_grad(thetas)
    expected = exact.value_and_grad(thetas.double())
    assert values.dtype == torch.float64
    assert gradients.dtype == torch.float32
    torch.testing.assert_close(values, expected[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients.double(), expected[1], rtol=1e-4, atol=1e-4)


class Peak(TorchDispatchMode):
    """The largest number of bytes that tensors made inside it held at once, but for views of data
    that were there before."""

    def __init__(self, *there: Tensor) -> None:
        super().__init__()
        self.there = {tensor.untyped_storage()._cdata for tensor in there}
        self.live: dict[int, tuple[StorageWeakRef, int]] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata in self.there:
                    continue
                self.live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.live = {key: pair for key, pair in self.live.items() if not pair[0].expired()}
        self.bytes = max(self.bytes, sum(size for _, size in self.live.values()))
        return result


def wide(kind: str) -> tuple[nn.Module, tuple[Tensor, Tensor], str]:
    if kind == "mlp":
        layers = (nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))
        return nn.Sequential(*layers).double(), (randn(2000, 4), randn(2000)), "regression"
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 3)
    )
    return model.double(), (randn(500, 1, 6, 6), labels(500, 3)), "classification"


@pytest.mark.parametrize(
    ("method", "kind"), diagonal(["value", "value_and_grad", "grad_and_hvp"], ["mlp", "cnn"])
)
@pytest.mark.usefixtures("unchecked")
def test_memory_is_bounded_by_the_budget_and_not_by_the_data(kind, method):
    """Beyond what all rows need for one point, the tensors alive stay within the budget."""
    model, (x, y), likelihood = wide(kind)

    def peak(budget: int, points: int = len(y)) -> int:
        data = (x[:points], y[:points])
        surface = dims.LossSurface(model, data, likelihood, memory_budget=budget)
        thetas = surface.initial + 0.1 * randn(8, surface.size)
        arguments = (thetas, thetas) if method == "grad_and_hvp" else (thetas,)
        with Peak(*surface.data) as counter:
            getattr(surface, method)(*arguments)
        return counter.bytes

    budget = 1_000_000
    least, bounded, free = peak(2**40, points=1), peak(budget), peak(2**40)
    assert free > 3 * (least + budget)  # or the budget would not matter
    assert bounded <= least + budget


def ridge() -> tuple[nn.Module, Tensor, Tensor]:
    model = nn.Linear(3, 1, bias=False).double()
    x = randn(10, 3)
    return model, x, x @ randn(3, seed=5) + 0.1 * randn(10, seed=6)


@pytest.mark.parametrize("noise_std", [1.0, 0.4])
def test_scalings_by_hand(noise_std):
    """c·( (n/N)·Σ ½(y − xθ)²/σ² + ½δ‖θ‖² )."""
    model, x, y = ridge()
    theta = randn(1, 3, seed=9)
    data = 0.5 * (y - x @ theta[0]).square().sum() / noise_std**2
    prior = 0.5 * PRIOR * theta.square().sum()
    for points, scale in [(None, 1.0), (4.0, 1.0), (None, 0.01), (25.0, 3.0)]:
        surface = dims.LossSurface(
            model,
            (x, y),
            dims.Gaussian(noise_std),
            PRIOR,
            effective_points=points,
            loss_scale=scale,
        )
        expected = scale * ((points or 10) / 10 * data + prior)
        torch.testing.assert_close(surface.value(theta)[0], expected)
        assert surface.likelihood_scale == pytest.approx(scale * (points or 10) / 10)


def test_the_loss_scale_keeps_the_minimum_and_effective_points_do_not():
    """Ridge regression: θ* = (m XᵀX + δI)⁻¹ m Xᵀy with m = n/N, whatever c."""
    model, x, y = ridge()

    def solution(share: float) -> Tensor:
        identity = torch.eye(3, dtype=torch.float64)
        return torch.linalg.solve(share * x.T @ x + PRIOR * identity, share * x.T @ y)

    def slope(theta: Tensor, **scalings: float) -> float:
        surface = dims.LossSurface(model, (x, y), "regression", PRIOR, **scalings)
        return float(surface.value_and_grad(theta[None])[1].norm())

    assert slope(solution(1.0)) < 1e-12
    assert slope(solution(1.0), loss_scale=0.01) < 1e-12
    assert slope(solution(1.0), loss_scale=50.0) < 1e-11
    assert slope(solution(0.2), effective_points=2.0) < 1e-12
    assert slope(solution(0.2), effective_points=2.0, loss_scale=5.0) < 1e-12
    assert slope(solution(1.0), effective_points=2.0) > 1e-2
    assert slope(solution(0.2)) > 1e-2


def test_a_prior_of_many_precisions():
    model, x, y = ridge()
    precisions = torch.tensor([0.0, 2.0, 30.0], dtype=torch.float64)
    surface = dims.LossSurface(model, (x, y), "regression", precisions, loss_scale=0.5)
    without = dims.LossSurface(model, (x, y), "regression", 0.0, loss_scale=0.5)
    theta, vector = randn(1, 3, seed=3), randn(1, 3, seed=4)
    extra = 0.25 * (2 * theta[0, 1] ** 2 + 30 * theta[0, 2] ** 2)
    torch.testing.assert_close((surface.value(theta) - without.value(theta))[0], extra)
    ours, plainly = surface.grad_and_hvp(theta, vector), without.grad_and_hvp(theta, vector)
    torch.testing.assert_close(ours[0] - plainly[0], 0.5 * precisions * theta)
    torch.testing.assert_close(ours[1] - plainly[1], 0.5 * precisions * vector)


def test_other_settings_on_the_same_data():
    model, x, y = ridge()
    surface = dims.LossSurface(model, (x, y), "regression", 1.0, effective_points=4.0)
    other = surface.with_settings(likelihood=dims.Gaussian(0.3), prior_precision=2.0)
    fresh = dims.LossSurface(model, (x, y), dims.Gaussian(0.3), 2.0, effective_points=4.0)
    theta = randn(2, 3)
    assert torch.equal(other.value(theta), fresh.value(theta))
    assert surface.likelihood == dims.Gaussian(1.0)
    assert float(surface.prior_precision) == 1.0


def test_frozen_and_unselected_weights_are_constants():
    model, inputs, targets, likelihood, loss = case("mlp")
    model[0].weight.requires_grad_(False)
    surface = dims.LossSurface(model, (inputs, targets), likelihood, PRIOR, parameters=["0", "2"])
    assert surface.vector.names == ("0.bias", "2.weight", "2.bias")
    theta = surface.initial + randn(surface.size)
    twin = copy.deepcopy(model)
    chosen = [twin[0].bias, twin[2].weight, twin[2].bias]
    nn.utils.vector_to_parameters(theta, chosen)
    value = loss(twin(inputs)) + 0.5 * PRIOR * theta.square().sum()
    slope = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss(twin(inputs)), chosen)])
    values, gradients = surface.value_and_grad(theta[None])
    torch.testing.assert_close(values[0], value.detach())
    torch.testing.assert_close(gradients[0], slope + PRIOR * theta)


@pytest.mark.parametrize("name", CASES)
def test_the_given_model_is_left_alone(name):
    model, inputs, targets, likelihood, _ = case(name)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    modes = [layer.training for layer in model.modules()]
    surface = dims.LossSurface(model, (inputs, targets), likelihood, PRIOR)
    thetas = surface.initial + randn(2, surface.size)
    surface.value_and_grad(thetas)
    surface.grad_and_hvp(thetas, thetas)
    surface.predict(thetas, inputs)
    dims.integrate(surface, surface.initial, randn(surface.size), max_time=0.01)
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key])
    assert [layer.training for layer in model.modules()] == modes
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    before = surface.value(thetas)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(surface.value(thetas), before)


@pytest.mark.parametrize(
    "layer",
    [nn.Dropout(0.1), nn.Dropout1d(0.1), nn.AlphaDropout(0.1), nn.BatchNorm1d(4), nn.LSTM(4, 4, 2)],
)
def test_layers_in_training_mode_are_refused_with_advice(layer):
    if isinstance(layer, nn.LSTM):
        layer.dropout = 0.2
    model = nn.Sequential(nn.Linear(3, 4), layer)
    kind = type(layer).__name__
    with pytest.raises(ValueError, match=rf"model: layer '1' \({kind}\).*model\.eval\(\)"):
        dims.LossSurface(model, (torch.zeros(5, 3), torch.zeros(5, 4)), "regression")


def test_the_same_layers_are_welcome_in_eval_mode():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    model = with_statistics(model.double()).eval()
    x, y = randn(5, 3), randn(5)
    surface = dims.LossSurface(model, (x, y), "regression", 0.0)
    expected = 0.5 * (model(x).squeeze(-1) - y).square().sum().detach()
    torch.testing.assert_close(surface.value(surface.initial[None])[0], expected)
    silent = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.0))  # never drops: no harm in training
    dims.LossSurface(silent, (torch.zeros(5, 3), torch.zeros(5)), "regression")


def test_statistics_of_the_batch_are_refused_even_in_eval_mode():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False)).eval()
    with pytest.raises(ValueError, match=r"model: layer '1' .*track_running_stats=True"):
        dims.LossSurface(model, (torch.zeros(5, 3), torch.zeros(5, 4)), "regression")


class Noisy(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(super().forward(x), 0.5, training=True)


def test_a_network_that_is_not_a_function_is_refused():
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=r"model: two calls on the same inputs differ"):
        dims.LossSurface(Noisy(3, 4), (torch.randn(5, 3), torch.zeros(5, 4)), "regression")


X, Y = torch.zeros(5, 3), torch.zeros(5)


def linear(change: Callable[[nn.Linear], object] = lambda model: None) -> nn.Linear:
    model = nn.Linear(3, 1)
    with torch.no_grad():
        change(model)
    return model


@pytest.mark.parametrize(
    ("model", "data", "options", "named"),
    [
        (linear(lambda m: m.weight.fill_(math.nan)), (X, Y), {}, "model: its parameters .*NaN"),
        (linear(lambda m: m.bias.fill_(math.inf)), (X, Y), {}, "model: its parameters .*infinite"),
        (linear(lambda m: m.requires_grad_(False)), (X, Y), {}, "model: .*no trainable"),
        (nn.Identity(), (X, Y), {}, "model: .*no trainable"),
        (linear(), (X[:0], Y[:0]), {}, "data: it is empty"),
        (linear(), (X, Y[:3]), {}, "data: 5 inputs but 3 targets"),
        (linear(), (X, torch.zeros(5, 2)), {}, "targets: shape"),
        (linear(), (X / 0, Y), {}, "inputs: contain NaN"),
        (linear(), (X, Y / 0), {}, "targets: contain NaN"),
        (linear(), (torch.zeros(5, 2, 3), Y), {}, r"model: its outputs must have shape"),
        (linear(), (X, Y), {"prior_precision": -1.0}, "prior_precision"),
        (linear(), (X, Y), {"prior_precision": math.nan}, "prior_precision"),
        (linear(), (X, Y), {"prior_precision": torch.ones(3)}, "prior_precision: .*length 4"),
        (linear(), (X, Y), {"prior_precision": torch.ones(4, 4)}, "prior_precision"),
        (linear(), (X, Y), {"effective_points": 0.0}, "effective_points"),
        (linear(), (X, Y), {"effective_points": math.inf}, "effective_points"),
        (linear(), (X, Y), {"loss_scale": -1.0}, "loss_scale"),
        (linear(), (X, Y), {"loss_scale": math.nan}, "loss_scale"),
        (linear(), (X, Y), {"memory_budget": 0}, "memory_budget"),
        (linear(), (X, Y), {"likelihood": "poisson"}, "likelihood"),
        (linear(), (X, Y), {"likelihood": dims.Categorical()}, "likelihood: Categorical"),
        (linear(), (X, Y), {"parameters": "head"}, "parameters: 'head'"),
    ],
)
def test_bad_arguments_are_named(model, data, options, named):
    with pytest.raises(ValueError, match=named):
        dims.LossSurface(model, data, **{"likelihood": "regression", **options})


@pytest.mark.usefixtures("unchecked")
def test_a_function_is_no_module():
    with pytest.raises(TypeError, match=r"model: expected a torch\.nn\.Module, got function"):
        dims.LossSurface(lambda x: x, (X, Y), "regression")


@pytest.mark.usefixtures("unchecked")
def test_rows_of_another_shape_or_type_are_refused():
    surface = dims.LossSurface(linear(), (X, Y), "regression")
    good = torch.zeros(2, 4)
    for method in (
        surface.value,
        surface.value_and_grad,
        lambda rows: surface.grad_and_hvp(rows, rows),
        lambda rows: dims.integrate(surface, rows, rows),
    ):
        with pytest.raises(ValueError, match="thetas: 5 parameters, the model has 4"):
            method(torch.zeros(2, 5))
        with pytest.raises(TypeError, match=r"thetas: torch\.float64 .* torch\.float32"):
            method(good.double())
        with pytest.raises(TypeError, match=r"use \.float\(\)"):
            method(good.long())
    with pytest.raises(ValueError, match="thetas: expected shape"):
        surface.value_and_grad(good[0])
    with pytest.raises(ValueError, match=r"vectors: shape \(1, 4\)"):
        surface.grad_and_hvp(good, good[:1])


def test_a_surface_that_is_gone_leaves_nothing_behind() -> None:
    """Measuring activations once kept the graph of each network in a cycle."""

    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(each), Tensor) for each in gc.get_objects())

    network = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    data = (torch.randn(5, 2).double(), torch.randn(5, 1).double())
    theta = dims.LossSurface(network, data, "regression").initial.unsqueeze(0)
    before = tensors()
    for _ in range(3):
        dims.LossSurface(network, data, "regression").value_and_grad(theta)
    assert tensors() <= before
