"""Images: a small residual network on handwritten digits, and those on which its draws disagree.

The digits are the 8 × 8 pixels of scikit-learn. The draws are weighed on images that the network
has not seen, scored on others, and compared on digits that are turned by a quarter.

    python examples/residual_images.py            # two minutes
    python examples/residual_images.py --quick    # half a minute, with rough results
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from dims.metrics import ood_auroc
from torch import Tensor, nn

import dims
from common import options
from dims.commands.pages.html import write_page
from dims.commands.pages.read import read_page

Rows = tuple[Tensor, Tensor]
TRAINING, HELD_OUT = 1000, 200  # of 1 797 images; the others are test images
CHANNELS = 8


class Block(nn.Module):
    """Two convolutions beside a connection around them.

    GroupNorm and SiLU keep the loss a smooth function of the weights alone: BatchNorm would make it
    depend on the batch, and the gradient of ReLU jumps.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.GroupNorm(2, channels) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        inner = nn.functional.silu(self.norms[0](self.first(x)))
        return nn.functional.silu(x + self.norms[1](self.second(inner)))


def make_network() -> nn.Module:
    entrance = nn.Conv2d(1, CHANNELS, 3, padding=1), nn.SiLU(), Block(CHANNELS), nn.AvgPool2d(2)
    end = Block(CHANNELS), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, 10)
    return nn.Sequential(*entrance, *end)


def images() -> tuple[Rows, Rows, Rows]:
    """Training, held-out and test images with their labels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16 - 0.3
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    parts = order.tensor_split([TRAINING, TRAINING + HELD_OUT])
    training, held_out, test = ((pixels[part], labels[part]) for part in parts)
    return training, held_out, test


def train(rows: Rows, epochs: int = 40) -> nn.Module:
    """Adam with a learning rate that rises and falls once."""
    torch.manual_seed(0)
    model, (x, labels), batch = make_network(), rows, 64
    steps = epochs * -(-len(x) // batch)
    optimiser = torch.optim.Adam(model.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=steps)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(batch):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[part]), labels[part]).backward()
            optimiser.step()
            schedule.step()
    return model


def problem() -> tuple[nn.Module, Rows, str, Rows]:
    """What `dims sample` and `dims report` ask for: network, data, likelihood, held-out rows."""
    training, held_out, _ = images()
    return train(training), training, "classification", held_out


def compare(draws: dims.Draws, network: dims.Draws, test: Rows) -> dict[str, dict[str, float]]:
    """Network and draws on test images, and on the same images turned by a quarter."""
    x, labels = test
    found = {}
    for name, answer in (("network", network), ("draws", draws)):
        here, turned = answer.predict(x), answer.predict(x.rot90(dims=(2, 3)))
        scores = here.metrics(labels)["ensemble"]
        found[name] = {key: scores[key] for key in ("accuracy", "nll", "ece")}
        found[name]["auroc"] = float(ood_auroc(here.entropy, turned.entropy))
    return found


def wrong_among(draws: dims.Draws, test: Rows, count: int) -> tuple[int, int]:
    """How many of the images on which draws disagree most are answered wrongly, and of all."""
    prediction = draws.predict(test[0])
    wrong = prediction.probabilities.argmax(-1) != test[1]
    most = prediction.mutual_information.topk(count).indices
    return int(wrong[most].sum()), int(wrong.sum())


def main(quick: bool, out: Path) -> dict[str, Any]:
    training, held_out, test = images()
    model = train(training)
    posterior = dims.fit(
        model, training, "classification", curvature="low_rank", rank=20, validation=held_out
    )
    store = out / "residual_images"
    draws = posterior.sample(
        3 if quick else 8, max_time=0.1 if quick else 1.0, store=store, progress=not quick
    )
    network = dims.Draws.from_parameters(posterior.surface, posterior.map_parameters.unsqueeze(0))
    found: dict[str, Any] = compare(draws, network, test)
    for name, scores in found.items():
        print(f"{name:8}", "  ".join(f"{key} {value:.4f}" for key, value in scores.items()))
    found["wrong"], found["all wrong"] = wrong_among(draws, test, 20)
    wrong = f"{found['wrong']} of {found['all wrong']} wrong answers"
    print(f"{wrong} are among the 20 test images on which the draws disagree most")
    page = write_page(read_page(store, f"{__file__}:problem"), store / "report.html")
    print(f"The held-out images on which they disagree most: {page}")
    return found


if __name__ == "__main__":
    main(**options(__doc__))
