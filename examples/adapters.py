"""Low-rank adapters (LoRA) on a frozen transformer: sample the adapters alone.

A transformer that was trained on one task is frozen. Thin matrices beside its linear layers,
W + B·A, and a new head learn a second task from few sentences, and dims samples them: 122 numbers
of 1226. Sentences of words that the second task never showed should be less certain.

    python examples/adapters.py            # half a minute
    python examples/adapters.py --quick    # a few seconds, with rough results
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import dims

WORDS, LENGTH, WIDTH, RANK = 40, 6, 12, 2


class Encoder(nn.Module):
    """One layer of attention and one of neurons over words, and a head for two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        q, k, v = self.query(x), self.key(x), self.value(x)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v)
        return self.head((x + torch.tanh(self.hidden(x))).mean(dim=1))


class LowRank(nn.Module):
    """A frozen linear layer and a trained update of low rank: W·x + b + B·(A·x)."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)  # the network starts as it was

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.up(self.down(x))


def add_adapters(model: Encoder, rank: int) -> Encoder:
    """Freeze the network, put adapters on two of its layers, and give it a new head."""
    model.requires_grad_(False)
    model.value = LowRank(model.value, rank)
    model.hidden = LowRank(model.hidden, rank)
    model.head = nn.Linear(WIDTH, 2)
    return model


def sentences(count: int, words: range, generator: torch.Generator) -> Tensor:
    """Random words of a range."""
    return torch.randint(words.start, words.stop, (count, LENGTH), generator=generator)


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> None:
    """Minimise the cross-entropy of what is trainable."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trainable, lr=0.02, weight_decay=1e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()


def main(quick: bool, out: Path) -> dict[str, float]:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Encoder()
    # The first task: are most words even? On all words.
    first = sentences(400, range(WORDS), generator)
    train(model, first, ((first % 2).sum(1) < LENGTH / 2).long(), 100 if quick else 400)
    # The second: are most words from the upper half of the first twenty? On those twenty alone.
    model = add_adapters(model, RANK)
    x = sentences(60, range(20), generator)
    y = ((x >= 10).sum(1) > LENGTH / 2).long()
    train(model, x, y, 100 if quick else 400)
    model = model.double().eval()

    posterior = dims.fit(model, (x, y), "classification", prior_precision=1.0, refine=True)
    draws = posterior.sample(
        5 if quick else 30, max_time=0.5 if quick else 10.0, friction=0.2, progress=False
    )
    print(draws.summary())
    new, unknown = (
        draws.predict(sentences(300, words, generator)) for words in (range(20), range(20, WORDS))
    )
    found = {
        "sampled numbers": posterior.surface.size,
        "all numbers": sum(parameter.numel() for parameter in model.parameters()),
        "disagreement, known words": float(new.mutual_information.mean()),
        "disagreement, unknown words": float(unknown.mutual_information.mean()),
    }
    for name, value in found.items():
        print(f"{name}: {value:.4g}")
    out.mkdir(parents=True, exist_ok=True)
    torch.save(draws.to_module(0).state_dict(), out / "adapters_first_draw.pt")
    return found


if __name__ == "__main__":
    from common import options

    main(**options(__doc__))
