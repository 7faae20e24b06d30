"""Recurrent layers step by step against torch's own, and many sets of weights at once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import dims
from dims.model.torch_support.recurrent import use_steps

KINDS = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "rnn": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
    "projected": (nn.LSTM, {"proj_size": 2}),
    "no_bias": (nn.GRU, {"bias": False}),
    "deep": (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    "deep_gru": (nn.GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
}


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def pair(name: str) -> tuple[nn.Module, nn.Module]:
    """Torch's layer, and the same weights step by step."""
    kind, options = KINDS[name]
    torch.manual_seed(0)
    layer = kind(3, 4, **options).double()
    other = copy.deepcopy(layer)
    use_steps(other)
    assert type(other) is not type(layer)
    return layer, other


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, PackedSequence):
        assert torch.equal(found.batch_sizes, expected.batch_sizes)
        found, expected = found.data, expected.data
    if isinstance(expected, Tensor):
        return torch.testing.assert_close(found, expected)
    for one, two in zip(found, expected, strict=True):
        assert_same(one, two)
    return None


def initial_state(layer: Any, sequences: int | None) -> Any:
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    inner = () if sequences is None else (sequences,)
    hidden = random(count, *inner, layer.proj_size or 4, seed=1)
    return (hidden, random(count, *inner, 4, seed=2)) if isinstance(layer, nn.LSTM) else hidden


@pytest.mark.parametrize("name", KINDS)
def test_outputs_and_states_are_torchs(name: str) -> None:
    layer, other = pair(name)
    batch = random(5, 6, 3)
    sequences = 5 if layer.batch_first else 6
    for given in ((batch,), (batch, initial_state(layer, sequences)), (batch[:, 0],)):
        assert_same(other(*given), layer(*given))
    alone = (batch[:, 0], initial_state(layer, None))
    assert_same(other(*alone), layer(*alone))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("ordered", [True, False])
def test_packed_sequences_of_several_lengths(name: str, ordered: bool) -> None:
    layer, other = pair(name)
    lengths = [6, 4, 4, 1] if ordered else [4, 1, 6, 4]
    batch = random(4, 6, 3)
    packed = pack_padded_sequence(batch, lengths, batch_first=True, enforce_sorted=ordered)
    assert_same(other(packed), layer(packed))
    state = initial_state(layer, 4)
    assert_same(other(packed, state), layer(packed, state))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells_are_torchs(kind: Any) -> None:
    torch.manual_seed(0)
    cell = kind(3, 4).double()
    other = copy.deepcopy(cell)
    use_steps(other)
    state = random(5, 4, seed=1)
    state = (state, random(5, 4, seed=2)) if kind is nn.LSTMCell else state
    for given in ((random(5, 3),), (random(5, 3), state), (random(3),)):
        assert_same(other(*given), cell(*given))


class LastStep(nn.Module):
    """A sequence of words, of which some are padding, to a number."""

    def __init__(self, kind: Any, packed: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 3)
        self.recurrent = kind(3, 4, batch_first=True)
        self.head = nn.Linear(4, 1)
        self.packed = packed

    def forward(self, words: Tensor) -> Tensor:
        vectors: Any = self.words(words)
        if not self.packed:
            return self.head(self.recurrent(vectors)[0].mean(1))
        lengths = (words > 0).sum(1).cpu()
        vectors = pack_padded_sequence(vectors, lengths, True, enforce_sorted=False)
        outputs, _ = self.recurrent(vectors)
        padded, lengths = pad_packed_sequence(outputs, True)
        return self.head(padded.sum(1) / lengths.unsqueeze(-1))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore::dims.BatchingWarning")
def test_gradients_and_products_are_those_of_the_module(kind: Any, packed: bool) -> None:
    """Of each row, by torch's own layer and autograd; its double derivative by differences."""
    torch.manual_seed(0)
    model = LastStep(kind, packed).double()
    words = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [2, 0, 0, 0]])
    y = random(3, 1)
    surface = dims.LossSurface(model, (words, y), dims.Gaussian(0.5))
    thetas = surface.initial + 0.3 * random(3, surface.size, seed=3)
    values, gradients = surface.value_and_grad(thetas)
    other = copy.deepcopy(model)
    for theta, value, gradient in zip(thetas, values, gradients, strict=True):
        nn.utils.vector_to_parameters(theta, other.parameters())
        other.zero_grad()
        loss = 2 * (other(words) - y).square().sum() + 0.5 * theta.square().sum()
        loss.backward()
        own = torch.cat([p.grad.reshape(-1) for p in other.parameters()]) + theta  # type: ignore[union-attr]
        torch.testing.assert_close(value, loss.detach())
        torch.testing.assert_close(gradient, own)
    vectors = random(3, surface.size, seed=4)
    _, products = surface.grad_and_hvp(thetas, vectors)
    above = surface.value_and_grad(thetas + 1e-5 * vectors)[1]
    below = surface.value_and_grad(thetas - 1e-5 * vectors)[1]
    torch.testing.assert_close(products, (above - below) / 2e-5, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
@pytest.mark.usefixtures("without_shape_checks")
def test_an_lstm_is_sampled() -> None:
    torch.manual_seed(0)
    model = LastStep(nn.LSTM, False).double()
    words, y = torch.randint(1, 7, (12, 4)), random(12, 1)
    posterior = dims.fit(model, (words, y), "regression", curvature="low_rank", rank=5, tune=True)
    for method in ("linla", "rla"):
        options = {"max_time": 0.05} if method == "rla" else {}
        draws = posterior.sample(2, method, progress=False, **options)
        assert draws.predict(words).samples.isfinite().all()
    assert draws.energy_violation.max() < 1e-2
