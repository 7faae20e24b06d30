"""A file of draws belongs to one model: every other is refused, and the difference named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.sampling.draws.signature import probe
from draws_problems import draws_of, mlp, problem, random_inputs


def wider() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def deeper() -> nn.Module:
    return nn.Sequential(*mlp(3, 4), nn.Tanh(), nn.Linear(4, 4).double())


def shallower() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 7)).double()


def other_activation() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 7), nn.ReLU(), nn.Linear(7, 4)).double()


def with_buffer() -> nn.Module:
    model = mlp(3, 4)
    model.register_buffer("scale", torch.ones(2))
    return model


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (wider, r"parameter '0.weight' \(float64, shape \(8, 3\)\) is another.*shape \(7, 3\)"),
        (deeper, r"its parameter '4.weight' .* is unknown to the file"),
        (shallower, r"it lacks parameter '2.weight' \(float64, shape \(4, 7\)\)"),
        (other_activation, "its outputs at θ. are others"),
        (with_buffer, "its buffer 'scale' .* is unknown to the file"),
        (lambda: mlp(3, 4).float(), r"convert the model with model.to\(torch.float64\)"),
    ],
)
def test_another_model_is_refused(
    build: Callable[[], nn.Module], message: str, tmp_path: Path
) -> None:
    draws_of(problem("four classes")[0]).save(tmp_path / "run")
    with pytest.raises(dims.DrawsFileError, match=message) as caught:
        dims.load(tmp_path / "run", build())
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "run"))


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"model: expected a torch.nn.Module, got dict"):
        dims.load(tmp_path / "run", {})  # type: ignore[arg-type]


def test_networks_that_refuse_the_probe_are_saved_without_it(tmp_path: Path) -> None:
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            if (x < 0).any():
                raise AssertionError("negative inputs")
            return self.layer(x)

    x = random_inputs(6, 3).abs()
    surface = dims.LossSurface(Picky().double(), (x, x[:, 0]), "regression")
    assert probe(surface, surface.initial) is None
    draws_of(surface).save(tmp_path / "run")
    assert len(dims.load(tmp_path / "run", Picky().double())) == 5
