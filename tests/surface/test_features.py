"""Frozen features are computed once, and losses and curvatures stay those of the whole network."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.curvature import fit_curvature
from dims.model.training_data import map_inputs
from dims.surface import features

pytestmark = pytest.mark.usefixtures("without_shape_checks")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.GroupNorm(1, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.norm(self.convolution(x)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3)
        self.blocks = nn.Sequential(Block(), Block(), Block())
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.blocks(self.stem(x))
        return self.head(h.mean(dim=(2, 3)).view(x.size(0), -1))


class Skips(nn.Module):
    """Frozen and sampled parts in turn, a constant, and the input itself used at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.third, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_buffer("shift", torch.linspace(-1, 1, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        h = h + torch.tanh(self.second(h)) * self.shift
        h = torch.tanh(self.third(h)) + torch.arange(x.shape[1])
        return self.head(h + x)


class Branching(nn.Module):
    """A forward pass that torch cannot trace."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.inner(x))
        return self.head(h) if x.shape[0] < 1000 else h


class Keywords(nn.Module):
    """Arguments by name, and an output with logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.body, self.head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        h = torch.tanh(self.body(self.words(input_ids)))
        if attention_mask is not None:
            h = h * attention_mask.unsqueeze(-1)
        return SimpleNamespace(loss=None, logits=self.head(h.mean(1)))


def sentences() -> dict[str, Tensor]:
    ids = torch.randint(0, 9, (12, 5))
    return {"input_ids": ids, "attention_mask": (ids > 0).double()}


def images() -> Tensor:
    return torch.randn(12, 1, 6, 6)


def table() -> Tensor:
    return torch.randn(12, 4)


# Model, inputs, what is sampled, and whether features are cached.
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], Any, bool]] = {
    "residual, last block and head": (Residual, images, ["blocks.2", "head"], True),
    "residual, head": (Residual, images, "head", True),
    "residual, all": (Residual, images, None, False),
    "residual, stem": (Residual, images, "stem", False),
    "skips, second layer": (Skips, table, "second", True),
    "skips, head": (Skips, table, "head.weight", True),
    "keywords, head": (Keywords, sentences, "head", True),
    "untraceable": (Branching, table, "head", False),
}


@pytest.mark.parametrize("name", CASES)
def test_losses_and_curvatures_are_those_of_the_whole_network(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, inputs, parameters, cached = CASES[name]
    torch.manual_seed(0)
    model, x = (
        build().double(),
        map_inputs(lambda t: t.double() if t.is_floating_point() else t, inputs()),
    )
    data = (x, torch.arange(12) % 2)
    monkeypatch.setattr(features, "POINTS_AT_ONCE", 5)
    surface = dims.LossSurface(model, data, "classification", parameters=parameters)
    assert (surface.head is not surface.module) == cached
    monkeypatch.setattr(
        "dims.surface.loss.cache_features", lambda module, n, data, b: (data, module)
    )
    whole = dims.LossSurface(model, data, "classification", parameters=parameters)
    thetas = surface.initial + 0.2 * torch.randn(2, surface.size, dtype=torch.float64)
    vectors = torch.randn_like(thetas)
    torch.testing.assert_close(surface.value(thetas), whole.value(thetas))
    torch.testing.assert_close(surface.value_and_grad(thetas), whole.value_and_grad(thetas))
    torch.testing.assert_close(
        surface.grad_and_hvp(thetas, vectors), whole.grad_and_hvp(thetas, vectors)
    )
    torch.testing.assert_close(surface.predict(thetas, x), whole.predict(thetas, x))
    torch.testing.assert_close(surface.outputs_on_data(thetas), whole.predict(thetas, x))
    if cached:
        found, expected = (
            fit_curvature(each, surface.initial, "full").dense() for each in (surface, whole)
        )
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


def test_the_motion_does_not_see_the_frozen_part() -> None:
    """The stem is called on every image once, however many gradients there are."""
    seen = 0

    class Counted(nn.Conv2d):
        def forward(self, input: Tensor) -> Tensor:
            nonlocal seen
            seen += len(input)
            return super().forward(input)

    torch.manual_seed(0)
    model = Residual()
    model.stem = Counted(1, 3, 3)
    data = (images(), torch.arange(12) % 2)
    surface = dims.LossSurface(model, data, "classification", parameters=dims.last_blocks(model, 2))
    assert surface.vector.names[0].startswith("blocks.2")
    before = seen
    thetas = surface.initial.expand(3, -1)
    for _ in range(3):
        surface.value_and_grad(thetas)
        surface.grad_and_hvp(thetas, thetas)
    fit_curvature(surface, surface.initial, "full")
    assert seen == before
    surface.predict(thetas, data[0])  # new inputs go through the whole network
    assert seen > before


def test_features_that_do_not_fit_in_memory_are_not_kept() -> None:
    torch.manual_seed(0)
    data = (images(), torch.arange(12) % 2)
    small = dims.LossSurface(
        Residual(), data, "classification", parameters="head", memory_budget=100
    )
    assert small.head is small.module


def test_patterns_and_blocks_choose_parameters() -> None:
    model = Residual()
    names = [name for name, _ in model.named_parameters()]
    data = (images(), torch.arange(12) % 2)

    def chosen(parameters: Any) -> list[str]:
        surface = dims.LossSurface(model, data, "classification", parameters=parameters)
        return list(surface.vector.names)

    assert chosen("blocks.*.bias") == [n for n in names if n.startswith("blocks") and "bias" in n]
    assert chosen(["head", "stem.b*"]) == ["stem.bias", "head.weight", "head.bias"]
    assert dims.last_blocks(model, 3) == ["blocks.1", "blocks.2", "head"]
    model.head.requires_grad_(False)
    assert dims.last_blocks(model, 1) == ["blocks.2"]
    with pytest.raises(ValueError, match=r"4 trainable blocks \(stem, blocks.0.*\), not 5"):
        dims.last_blocks(model, 5)
    with pytest.raises(ValueError, match=r"parameters: 'block\.\*' names no trainable"):
        chosen("block.*")
