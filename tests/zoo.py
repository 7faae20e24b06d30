"""Models and data as people have them: small, with random weights, each with its likelihood.

`ZOO` has those that dims samples, `REFUSED` those that it refuses and what it says. docs/models.md
lists the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

import dims

POINTS = 8


@dataclass(frozen=True)
class Case:
    """A model, inputs and targets, and how to call the model on the inputs."""

    model: nn.Module
    inputs: Any
    targets: Tensor
    likelihood: str | dims.Likelihood = "classification"
    parameters: Any = None
    kinks: bool = False  # gradients that jump: a status other than finished is allowed

    def call(self, module: nn.Module) -> Tensor:
        """As a user calls it."""
        if isinstance(self.inputs, tuple):
            found = module(*self.inputs)
        elif isinstance(module, (KeywordModel, Tagger)):
            found = module(**self.inputs)
        else:
            found = module(self.inputs)
        return getattr(found, "logits", found)


def classes(count: int = 2) -> Tensor:
    return torch.arange(POINTS) % count


def table(width: int = 3) -> Tensor:
    return torch.randn(POINTS, width)


def images(channels: int = 1) -> Tensor:
    return torch.randn(POINTS, channels, 6, 6)


def words(length: int = 5) -> Tensor:
    return torch.randint(1, 9, (POINTS, length))


def perceptron(activation: nn.Module, outputs: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 5), activation, nn.Linear(5, outputs))


def convolutional(*layers: nn.Module) -> nn.Sequential:
    body = [nn.Conv2d(1, 4, 3), *layers, nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(16, 2)).eval()


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + functional.silu(block(x))
        return self.head(x.mean(dim=(2, 3)))


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.RNNBase], width: int = 4, **options: Any) -> None:
        super().__init__()
        self.recurrent = kind(3, 4, batch_first=True, **options)
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.recurrent(x)[0][:, -1])


class Packed(Recurrent):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        packed = pack_padded_sequence(x, lengths.cpu(), True, enforce_sorted=False)
        return self.head(self.recurrent(packed)[1][0][-1])


class CellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], 4)
        for step in x.unbind(1):
            h = self.cell(step, h)
        return self.head(h)


class Encoder(nn.Module):
    """Words, with 0 as padding where `masked`."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        self.words = nn.Embedding(9, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, 2)
        self.eval()

    def forward(self, words: Tensor) -> Tensor:
        padding = words == 0 if self.masked else None
        h = self.encoder(self.words(words), src_key_padding_mask=padding)
        if padding is None:
            return self.head(h.mean(1))
        kept = (~padding).unsqueeze(-1)
        return self.head(torch.where(kept, h, 0.0).sum(1) / kept.sum(1))


class Causal(nn.Module):
    """Attention by torch's function, and positions in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.mixed, self.head = nn.Embedding(9, 4), nn.Linear(4, 12), nn.Linear(4, 2)
        self.register_buffer("positions", torch.linspace(-1, 1, 5).unsqueeze(-1))

    def forward(self, words: Tensor) -> Tensor:
        q, k, v = self.mixed(self.words(words) + self.positions).unsqueeze(1).chunk(3, -1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(mixed[:, 0, -1])


class Tied(nn.Module):
    """The next word, by the same matrix that embeds words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.middle = nn.Linear(4, 4)
        self.decoder = nn.Linear(4, 9)
        self.decoder.weight = self.words.weight

    def forward(self, words: Tensor) -> Tensor:
        return self.decoder(torch.tanh(self.middle(self.words(words).mean(1))))


class Graph(nn.Module):
    """Messages along edges by index_add; a point is a graph of five nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.message, self.head = nn.Linear(2, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, graph: dict[str, Tensor]) -> Tensor:
        h = torch.tanh(self.inner(graph["nodes"]))
        offset = torch.arange(h.shape[0]).view(-1, 1, 1) * h.shape[1]
        source, target = (graph["edges"] + offset).flatten(0, 1).unbind(-1)
        flat = h.flatten(0, 1)
        sums = torch.zeros_like(flat).index_add(0, target, self.message(flat)[source])
        return self.head(torch.tanh(sums).view(h.shape).mean(1))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 2) for _ in range(3))
        self.gate = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        each = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return (each * torch.softmax(self.gate(x), -1).unsqueeze(1)).sum(-1)


class Rent(nn.Module):
    """A dict of numbers and categories."""

    def __init__(self) -> None:
        super().__init__()
        self.district, self.body = nn.Embedding(4, 2), perceptron(nn.Tanh(), 1)

    def forward(self, flat: dict[str, Tensor]) -> Tensor:
        return self.body(torch.cat([flat["size"], self.district(flat["district"])], -1))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bilinear = nn.Bilinear(3, 2, 2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.bilinear(left, right)


class KeywordModel(nn.Module):
    """The interface of Hugging Face's classifiers: keyword arguments, outputs with logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None
    ) -> Any:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        h = (self.words(input_ids) * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        logits = self.head(torch.tanh(h))
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return SimpleNamespace(loss=loss, logits=logits)


class Tagger(nn.Module):
    """A label for every word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, input_ids: Tensor) -> Any:
        return SimpleNamespace(logits=self.head(torch.tanh(self.words(input_ids))))


class Adapted(nn.Module):
    """A frozen layer with a trained product of two thin matrices beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(3, 5).requires_grad_(False)
        self.down, self.up = nn.Linear(3, 1, bias=False), nn.Linear(1, 5, bias=False)
        self.head = nn.Linear(5, 2).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.frozen(x) + self.up(self.down(x))))


class Branching(nn.Module):
    """A branch on a value: torch cannot batch it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = perceptron(nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        outputs = self.body(x)
        return outputs if outputs.abs().max().item() < math.inf else outputs.clamp(-1, 1)


class MaskBranching(nn.Module):
    """A branch on the data alone: torch can batch the weights, but not the points."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, words: Tensor) -> Tensor:
        h, kept = torch.tanh(self.words(words)), (words > 0).unsqueeze(-1)
        return self.head(h.mean(1) if kept.all() else (h * kept).sum(1) / kept.sum(1))


class Spectrum(nn.Module):
    """Complex numbers inside."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(3, 8), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.fft.rfft(self.inner(x)).abs())


def masked_words() -> Tensor:
    found = words()
    found[::2, 3:] = 0
    return found


def frozen() -> nn.Module:
    model = perceptron(nn.Tanh())
    model[0].requires_grad_(False)
    return model


def labels_of_words() -> Tensor:
    labels = torch.randint(0, 3, (POINTS, 5))
    labels[::2, 3:] = -100
    return labels


def normalised_weights() -> nn.Module:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    return nn.Sequential(layer, nn.Tanh(), nn.Linear(4, 2))


def gaussian_case(activation: nn.Module) -> Case:
    return Case(perceptron(activation, 1), table(), torch.randn(POINTS, 1), dims.Gaussian(0.5))


def image_case(*layers: nn.Module, kinks: bool = False) -> Case:
    return Case(convolutional(*layers), images(), classes(), kinks=kinks)


def outputs_case(likelihood: dims.Likelihood, outputs: int, targets: Tensor) -> Case:
    return Case(perceptron(nn.Tanh(), outputs), table(), targets, likelihood)


def sequence_case(model: nn.Module) -> Case:
    return Case(model, torch.randn(POINTS, 5, 3), classes())


def graphs() -> dict[str, Tensor]:
    return {"nodes": torch.randn(POINTS, 5, 2), "edges": torch.randint(0, 5, (POINTS, 6, 2))}


def flats() -> dict[str, Tensor]:
    return {"size": torch.randn(POINTS, 1), "district": torch.randint(0, 4, (POINTS,))}


def batch_of_words() -> dict[str, Tensor]:
    ids = masked_words()
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


ZOO: dict[str, Callable[[], Case]] = {
    "MLP, tanh, regression": lambda: gaussian_case(nn.Tanh()),
    "MLP, GELU": lambda: gaussian_case(nn.GELU()),
    "MLP, ReLU": lambda: Case(perceptron(nn.ReLU()), table(), classes(), kinks=True),
    "MLP, PReLU": lambda: Case(perceptron(nn.PReLU(5)), table(), classes(), kinks=True),
    "one logit": lambda: outputs_case(dims.Bernoulli(), 1, classes()),
    "CNN, BatchNorm in evaluation mode": lambda: image_case(nn.BatchNorm2d(4)),
    "CNN, GroupNorm": lambda: image_case(nn.GroupNorm(2, 4)),
    "CNN, LayerNorm": lambda: image_case(nn.LayerNorm([4, 4, 4])),
    "CNN, max pooling": lambda: image_case(nn.MaxPool2d(2), kinks=True),
    "CNN, grouped and transposed": lambda: image_case(
        nn.Conv2d(4, 4, 3, groups=2), nn.ConvTranspose2d(4, 4, 2)
    ),
    "residual network": lambda: Case(Residual(), images(), classes()),
    "1-D convolution": lambda: Case(
        nn.Sequential(nn.Conv1d(3, 4, 2), nn.SiLU(), nn.Flatten(), nn.Linear(16, 2)),
        torch.randn(POINTS, 3, 5),
        classes(),
    ),
    "LSTM": lambda: sequence_case(Recurrent(nn.LSTM)),
    "GRU": lambda: sequence_case(Recurrent(nn.GRU)),
    "LSTM, two layers, two directions": lambda: sequence_case(
        Recurrent(nn.LSTM, 8, num_layers=2, bidirectional=True)
    ),
    "LSTM, packed sequences": lambda: Case(
        Packed(nn.LSTM), (torch.randn(POINTS, 5, 3), torch.arange(POINTS) % 5 + 1), classes()
    ),
    "GRU cell in a loop": lambda: sequence_case(CellLoop()),
    "transformer encoder": lambda: Case(Encoder(False), words(), classes()),
    "transformer encoder with padding mask": lambda: Case(Encoder(True), masked_words(), classes()),
    "causal attention by torch's function": lambda: Case(Causal(), words(), classes()),
    "tied weights": lambda: Case(Tied(), words(), classes(9)),
    "frozen parts": lambda: Case(frozen(), table(), classes()),
    "last layer by name": lambda: Case(perceptron(nn.Tanh()), table(), classes(), parameters="2"),
    "bags of embeddings": lambda: Case(
        nn.Sequential(nn.EmbeddingBag(9, 4), nn.Linear(4, 2)), words(), classes()
    ),
    "message passing by index_add": lambda: Case(Graph(), graphs(), classes()),
    "mixture of experts": lambda: Case(Experts(), table(), classes()),
    "dict input": lambda: Case(Rent(), flats(), torch.randn(POINTS, 1), dims.Gaussian(0.5)),
    "two inputs": lambda: Case(TwoInputs(), (table(3), table(2)), classes()),
    "keyword batches, outputs with logits": lambda: Case(
        KeywordModel(), batch_of_words(), classes()
    ),
    "low-rank adapters on a frozen network": lambda: Case(Adapted(), table(), classes()),
    "weight normalisation": lambda: Case(normalised_weights(), table(), classes()),
    "Fourier transform": lambda: Case(Spectrum(), table(), classes()),
    "branch on a value": lambda: Case(Branching(), table(), classes()),
    "branch on the data": lambda: Case(MaskBranching(), masked_words(), classes()),
    "noise for each output": lambda: outputs_case(
        dims.GaussianPerOutput((0.5, 2.0)), 2, torch.randn(POINTS, 2)
    ),
    "noise from the input": lambda: outputs_case(
        dims.HeteroscedasticGaussian(), 2, torch.randn(POINTS, 1)
    ),
    "Student-t noise": lambda: outputs_case(dims.StudentT(4.0, 0.5), 1, torch.randn(POINTS, 1)),
    "counts": lambda: outputs_case(dims.Poisson(), 1, torch.arange(POINTS) % 4),
    "several labels": lambda: outputs_case(
        dims.MultiLabelBernoulli(), 3, torch.randint(0, 2, (POINTS, 3))
    ),
    "ordered classes": lambda: outputs_case(dims.Ordinal((-1.0, 0.0, 1.0)), 1, classes(4)),
    "labels of words, some ignored": lambda: Case(
        Tagger(), {"input_ids": masked_words()}, labels_of_words(), dims.PositionCategorical(3)
    ),
    "labels of pixels": lambda: Case(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 2, 1)),
        images()[..., :3, :3],
        torch.randint(0, 2, (POINTS, 3, 3)),
        dims.PositionCategorical(2, class_axis=1),
    ),
}


class Noisy(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(super().forward(x), 0.5)


class Pair(nn.Linear):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x), x


def old_weight_norm() -> nn.Module:
    return nn.utils.weight_norm(nn.Linear(3, 2))


def traced() -> nn.Module:
    return torch.jit.trace(nn.Linear(3, 2), torch.zeros(1, 3))


# At most six; the text is what the error says.
REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "dropout or BatchNorm in training mode": (
        lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)),
        "is in training mode, where the loss is not a function of θ alone; call model.eval() first",
    ),
    "a forward pass with random numbers": (
        lambda: Noisy(3, 2),
        "two calls on the same inputs differ, so its loss is not a function of θ",
    ),
    "TorchScript": (
        traced,
        "cannot be computed for many sets of weights; give the Python module that was scripted",
    ),
    "old `torch.nn.utils.weight_norm`": (
        old_weight_norm,
        "old torch.nn.utils.weight_norm",
    ),
    "a tuple as output": (
        lambda: Pair(3, 2),
        "its output is a tuple without logits; return one tensor",
    ),
    "the meta device": (
        lambda: nn.Linear(3, 2, device="meta"),
        "is on the meta device and has no values",
    ),
}
