"""Small networks of every kind of likelihood and input, and draws around them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

import dims
from dims.sampling.draws.fields import ROW_NUMBERS


class Pair(nn.Module):
    """Takes two arguments, or one dict of two."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(2, 3)
        self.words = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Any, words: Tensor | None = None) -> Tensor:
        x, words = (x["x"], x["words"]) if isinstance(x, dict) else (x, words)
        return self.head(torch.tanh(self.left(x) + self.words(words).sum(1)))


def mlp(
    inputs: int, outputs: int, dtype: torch.dtype = torch.float64, seed: int = 0
) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = (nn.Linear(inputs, 7), nn.Tanh(), nn.Linear(7, outputs))
    return nn.Sequential(*layers).to(dtype)


def random_inputs(points: int, features: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(points)
    return torch.randn(points, features, generator=generator, dtype=torch.float64).to(dtype)


def problem(
    kind: str, dtype: torch.dtype = torch.float64, **options: Any
) -> tuple[dims.LossSurface, Tensor]:
    """A surface by name, and 9 new inputs."""
    x = random_inputs(12, 3, dtype)
    if kind in ("one output", "three outputs"):
        outputs = 1 if kind == "one output" else 3
        model, y = mlp(3, outputs, dtype), random_inputs(12, outputs, dtype)
        likelihood: dims.Likelihood = dims.Gaussian(0.3)
    else:
        classes = {"one logit": 2, "two logits": 2, "four classes": 4}[kind]
        model = mlp(3, 1 if kind == "one logit" else classes, dtype)
        y = torch.arange(12) % classes
        likelihood = dims.Bernoulli(0.1) if kind == "one logit" else dims.Categorical(0.1)
    return dims.LossSurface(model, (x, y), likelihood, 0.5, **options), random_inputs(9, 3, dtype)


KINDS = ("one output", "three outputs", "one logit", "two logits", "four classes")


def draws_of(
    surface: dims.LossSurface, method: str = "dims", rows: int = 5, scale: float = 0.5
) -> dims.Draws:
    """Draws around θ* with every field filled."""
    generator = torch.Generator().manual_seed(rows)
    noise = torch.randn(rows, surface.size, generator=generator, dtype=torch.float64)
    thetas = surface.initial + scale * noise.to(surface.initial.dtype)
    loss, gradient = surface.value_and_grad(thetas)
    numbers = torch.rand(5, rows, generator=generator, dtype=torch.float64)
    statuses = list(dims.Status)
    return dims.Draws(
        parameters=thetas,
        method=method,
        surface=surface,
        map_parameters=surface.initial,
        status=[statuses[i % len(statuses)] for i in range(rows)],
        loss=loss,
        gradient_norm=gradient.norm(dim=1).double(),
        smallest_eigenvalue=numbers[0] - 0.5,
        kinetic_energy=numbers[1],
        energy_violation=1e-3 * numbers[2],
        energy_balance=numbers[3],
        arc_length=numbers[4],
        evaluations=torch.arange(rows) + 100,
        verdict=["minimum" if i % 2 else "saddle" for i in range(rows)],
        seed=7,
        settings={"friction": 0.1, "solver": "rattle", "max_time": None, "preconditioned": True},
    )


def looped(surface: dims.LossSurface, thetas: Tensor, inputs: Any) -> Tensor:
    """The outputs one draw and one point at a time, by torch alone."""

    def call(theta: Tensor, n: int) -> Tensor:
        start, tensors = 0, {}
        for name, parameter in surface.module.named_parameters():
            if name not in surface.vector.names:
                continue
            tensors[name] = theta[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()
        if isinstance(inputs, dict):
            arguments: tuple[Any, ...] = ({k: v[n : n + 1] for k, v in inputs.items()},)
        elif isinstance(inputs, (list, tuple)):
            arguments = tuple(v[n : n + 1] for v in inputs)
        else:
            arguments = (inputs[n : n + 1],)
        return functional_call(surface.module, tensors, arguments).reshape(-1)

    first = inputs
    while not isinstance(first, Tensor):
        first = next(iter(first.values() if isinstance(first, dict) else first))
    with torch.no_grad():
        return torch.stack(
            [torch.stack([call(theta, n) for n in range(len(first))]) for theta in thetas]
        )


def assert_same(loaded: dims.Draws, draws: dims.Draws) -> None:
    """Equal bit for bit, and under the same likelihood and prior."""
    for name in ("parameters", "map_parameters", "evaluations", *ROW_NUMBERS):
        one, other = getattr(loaded, name), getattr(draws, name)
        assert one.dtype == other.dtype, name
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True, msg=name)
    assert (loaded.weights is None) == (draws.weights is None)
    if draws.weights is not None:
        assert torch.equal(loaded.weights, draws.weights)
    for name in ("method", "status", "verdict", "seed", "settings"):
        assert getattr(loaded, name) == getattr(draws, name), name
    for name in ("likelihood", "points", "effective_points", "loss_scale", "outputs"):
        assert getattr(loaded.surface, name) == getattr(draws.surface, name), name
    assert torch.equal(loaded.surface.prior_precision, draws.surface.prior_precision)
