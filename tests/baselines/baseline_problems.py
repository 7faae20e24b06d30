"""Small data, networks on it, and linear regression with its posterior in closed form."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

NOISE, PRIOR = 0.4, 0.7


class Linear(NamedTuple):
    """A linear model at its MAP, its data and its posterior N(mean, covariance)."""

    model: nn.Linear
    data: tuple[Tensor, Tensor]
    mean: Tensor
    covariance: Tensor


def randn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def linear_regression(tempering: float = 1.0) -> Linear:
    """y = wᵀx + b + noise with two features; `tempering` scales the likelihood."""
    x = randn(25, 2, seed=1) @ torch.tensor([[1.0, 0.5], [0.0, 0.6]], dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-2.0]], dtype=torch.float64) + 0.5 + NOISE * randn(25, 1, seed=2)
    design = torch.cat([x, torch.ones(25, 1, dtype=torch.float64)], 1)
    precision = tempering * design.T @ design / NOISE**2
    precision = precision + PRIOR * torch.eye(3, dtype=torch.float64)
    covariance = torch.linalg.inv(precision)
    mean = covariance @ (tempering * design.T @ y / NOISE**2).squeeze(1)
    with torch.random.fork_rng(devices=[]):
        model = nn.Linear(2, 1, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(mean[:2].view(1, 2))
        model.bias.copy_(mean[2:])
    return Linear(model, (x, y), mean, covariance)


def network(
    seed: int = 0,
    outputs: int = 1,
    width: int = 5,
    activation: type[nn.Module] = nn.Tanh,
    dtype: torch.dtype = torch.float64,
) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = (nn.Linear(3, width), activation(), nn.Linear(width, outputs))
        return nn.Sequential(*layers).to(dtype)


def regression_data(outputs: int = 1) -> tuple[Tensor, Tensor]:
    return randn(20, 3, seed=3), randn(20, outputs, seed=4)


def class_data(classes: int = 3) -> tuple[Tensor, Tensor]:
    return randn(21, 3, seed=3), torch.arange(21) % classes


@contextmanager
def untouched(*models: nn.Module) -> Iterator[None]:
    """The models, the global generators and the default dtype are the same afterwards."""
    states = [copy.deepcopy(model.state_dict()) for model in models]
    flags = [[(m.training, len(m._forward_hooks)) for m in model.modules()] for model in models]
    needs = [[p.requires_grad for p in model.parameters()] for model in models]
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    dtype = torch.get_default_dtype()
    yield
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002
    assert torch.get_default_dtype() == dtype
    for model, state, flag, need in zip(models, states, flags, needs, strict=True):
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, state[name]), name
        assert [(m.training, len(m._forward_hooks)) for m in model.modules()] == flag
        assert [p.requires_grad for p in model.parameters()] == need
        assert all(p.grad is None for p in model.parameters())
