"""The network as a function of flat parameters: layers that need care, and chunks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.model.torch_support import memory
from dims.model.torch_support.memory import Chunks
from draws_problems import looped, problem


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 6, dropout=0.3, batch_first=True), 2
        )
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


def test_attention_has_the_outputs_of_eval_mode_and_a_gradient() -> None:
    torch.manual_seed(0)
    model = Encoder().double().eval()
    x, y = torch.randn(5, 3, 4, dtype=torch.float64), torch.arange(5) % 2
    surface = dims.LossSurface(model, (x, y), "classification", 0.0)
    thetas = surface.initial.repeat(2, 1)
    torch.testing.assert_close(surface.predict(thetas, x)[1], model(x))
    values, gradients = surface.value_and_grad(thetas)
    loss = nn.functional.cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    expected = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])
    assert values[0].item() == pytest.approx(loss.item(), rel=1e-12)
    torch.testing.assert_close(gradients[0], expected, rtol=1e-9, atol=1e-12)
    assert not any(layer.training for layer in model.modules())


def test_a_subset_of_the_weights_leaves_the_others_as_they_are() -> None:
    surface, x = problem("one output", parameters=["2"])
    assert surface.size == 8
    thetas = surface.initial + torch.randn(4, 8, dtype=torch.float64)
    expected = looped(surface, thetas, x)
    torch.testing.assert_close(surface.predict(thetas, x), expected, rtol=1e-12, atol=1e-12)


def test_predict_names_rows_of_another_model() -> None:
    surface, x = problem("one output")
    with pytest.raises(ValueError, match="thetas: 5 parameters, the model has 36"):
        surface.predict(torch.zeros(2, 5, dtype=torch.float64), x)


@pytest.mark.parametrize(("budget", "rows", "points"), [(1, 1, 1), (1000, 7, 1), (7000, 7, 10)])
def test_chunks_stay_within_the_budget(budget: int, rows: int, points: int) -> None:
    chunks = Chunks(budget, 100)
    parts = chunks.rows(7, 10)
    assert [i for part in parts for i in range(7)[part]] == list(range(7))
    assert parts[0].stop == rows
    assert chunks.points(parts[0]) == points


@pytest.mark.parametrize(("points", "sizes"), [(1, [7]), (10, [3, 4]), (30, [1] * 7)])
def test_rows_at_once_fit_a_cache_where_there_is_one(points: int, sizes: list[int]) -> None:
    chunks = Chunks(10**9, 100, cache=4000)
    parts = chunks.rows(7, points)
    assert [part.stop - part.start for part in parts] == sizes
    assert [i for part in parts for i in range(7)[part]] == list(range(7))
    assert chunks.points(parts[0]) >= points  # the cache asks for fewer rows, not fewer points


def test_rows_in_groups_have_the_gradients_of_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    surface, _ = problem("one output")
    generator = torch.Generator().manual_seed(4)
    rows = torch.randn(7, surface.size, dtype=torch.float64, generator=generator)
    loss, gradient = surface.value_and_grad(rows)
    monkeypatch.setattr(memory, "CPU_CACHE", 2 * surface.bytes_per_point * surface.points)
    other, _ = problem("one output")
    assert len(other._chunks.rows(7, other.points)) == 4
    found, slope = other.value_and_grad(rows)
    torch.testing.assert_close(found, loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(slope, gradient, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(other.value(rows), loss, rtol=1e-12, atol=0)
