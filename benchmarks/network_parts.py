"""Time two networks that need more than a batched gradient: frozen features and an LSTM.

- `features`: gradients of the last two layers of a residual network on 50 000 images, against the
  same two layers as a network of their own. The goal is at most 1.5 times.
- `lstm`: draws of an LSTM with about 10 000 parameters on 500 sequences of 50 steps.

python benchmarks/network_parts.py --quick
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, nn

import dims

SEED = 0


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.functional.silu(self.convolution(x))


class Residual(nn.Module):
    """A stem, three blocks, and two layers on the pooled features."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(3)))
        self.hidden, self.head = nn.Linear(width, 32), nn.Linear(32, 10)

    def features(self, x: Tensor) -> Tensor:
        return self.blocks(self.stem(x)).mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.hidden(self.features(x))))


def seconds(surface: dims.LossSurface, rows: int, repeats: int) -> float:
    """The shortest time of one gradient of all rows."""
    thetas = surface.initial + 0.01 * torch.randn(rows, surface.size)
    surface.value_and_grad(thetas)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        surface.value_and_grad(thetas)
        times.append(time.perf_counter() - start)
    return min(times)


def measure_features(images: int, rows: int = 4, repeats: int = 5) -> dict[str, Any]:
    """The ratio of the two gradients, and what computing the features took."""
    torch.manual_seed(SEED)
    model = Residual()
    x, y = torch.randn(images, 1, 8, 8), torch.arange(images) % 10
    start = time.perf_counter()
    part = dims.LossSurface(model, (x, y), "classification", parameters=dims.last_blocks(model, 2))
    made = time.perf_counter() - start
    with torch.no_grad():
        features = torch.cat([model.features(chunk) for chunk in x.split(1000)])
    own = nn.Sequential(model.hidden, nn.Tanh(), model.head)
    alone = dims.LossSurface(own, (features, y), "classification")
    ours, theirs = (seconds(surface, rows, repeats) for surface in (part, alone))
    return {
        "images": images,
        "rows": rows,
        "parameters": part.size,
        "seconds_of_a_gradient": ours,
        "seconds_of_two_layers_alone": theirs,
        "ratio": ours / theirs,
        "seconds_to_make_the_surface": made,
    }


class LastStep(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.recurrent, self.head = nn.LSTM(4, width, batch_first=True), nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.recurrent(x)[0][:, -1])


def measure_lstm(
    draws: int, sequences: int = 500, steps: int = 50, width: int = 46, epochs: int = 300
) -> dict[str, Any]:
    """Time of `fit` and of the motion in a moving metric to t = 10: this loss is too stiff for the
    euclidean one. Core seconds do not count the time that other programs took."""
    torch.manual_seed(SEED)
    model = LastStep(width)
    x = torch.randn(sequences, steps, 4)
    y = x[:, -10:, 0].mean(1, keepdim=True) * 3 + 0.1 * torch.randn(sequences, 1)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-3)
    for _ in range(epochs):
        optimiser.zero_grad()
        (model(x) - y).square().mean().backward()
        optimiser.step()
    start = time.perf_counter()
    posterior = dims.fit(model, (x, y), "regression", curvature="low_rank", rank=50, tune=True)
    fitted = time.perf_counter() - start
    start, core = time.perf_counter(), time.process_time()
    made = posterior.sample(
        draws, metric="moving", max_time=10.0, settle="none", certify=False, progress=False
    )
    return {
        "draws": draws,
        "parameters": posterior.surface.size,
        "threads": torch.get_num_threads(),
        "settled": False,
        "seconds_to_fit": fitted,
        "seconds_to_sample": time.perf_counter() - start,
        "core_seconds_to_sample": time.process_time() - core,
        "evaluations": made.evaluations.double().mean().item(),
        "largest_energy_violation": made.energy_violation.max().item(),
        "finished": sum(status is dims.Status.FINISHED for status in made.status),
    }


def main(
    quick: Annotated[bool, typer.Option(help="Seconds, with rough results.")] = False,
    part: Annotated[
        list[str] | None, typer.Option(help="features or lstm; both if left out.")
    ] = None,
    out: Annotated[Path, typer.Option(help="JSON file to write.")] = Path(
        "results/benchmarks/network_parts.json"
    ),
) -> None:
    """Measure and write what was measured beside what the file has."""
    found = json.loads(out.read_text()) if out.exists() else {}
    if part is None or "features" in part:
        found["features"] = measure_features(2_000 if quick else 50_000)
    if part is None or "lstm" in part:
        small = {"sequences": 20, "steps": 5, "width": 4, "epochs": 30}
        found["lstm"] = measure_lstm(2, **small) if quick else measure_lstm(20)
    text = json.dumps(found, indent=2)
    print(text)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n")


if __name__ == "__main__":
    typer.run(main)
