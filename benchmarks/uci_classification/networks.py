"""Networks trained as in the paper, those of many splits of a set side by side.

Three hidden layers of 16, SiLU, dropout 0.5, Adam with weight decay 10⁻² for 10 000 epochs. All
splits of a set have the same sizes, so one batched program trains a network on each.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from dims.model.training import perceptron, seeded
from dims_paper.datasets.uci import load_uci
from dims_paper.experiments.uci import TRAINING

__all__ = ["HIDDEN", "paper_network", "train_paper_networks"]

HIDDEN = (16, 16, 16)
DROPOUT = 0.5


def paper_network(name: str, seed: int, folder: Path, dropout: bool = False) -> nn.Sequential:
    """The trained network of one split, with its layers of dropout or without them."""
    split = load_uci(name, seed)
    widths = (split.train_inputs.shape[1], *HIDDEN, split.classes)
    network = perceptron(widths, nn.SiLU, DROPOUT if dropout else 0.0)
    tensors = load_file(folder / f"{name}.safetensors")
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for number, layer in enumerate(linear):
            layer.weight.copy_(tensors[f"{number}.weight"][seed])
            layer.bias.copy_(tensors[f"{number}.bias"][seed])
    return network.eval()


def train_paper_networks(name: str, seeds: int, folder: Path, epochs: int | None = None) -> None:
    """A network for each of the first splits of a set, into one file; as it is if it exists."""
    path = folder / f"{name}.safetensors"
    if path.exists():
        return
    splits = [load_uci(name, seed) for seed in range(seeds)]
    inputs = torch.stack([split.train_inputs for split in splits])
    targets = torch.stack([split.train_targets for split in splits])
    weights, biases = _first_weights((inputs.shape[-1], *HIDDEN, splits[0].classes), seeds)
    rate, decay = TRAINING.learning_rate, TRAINING.weight_decay
    optimiser = torch.optim.Adam([*weights, *biases], lr=rate, weight_decay=decay, fused=True)
    generators = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    rows = torch.arange(seeds).unsqueeze(-1)
    with seeded(0):
        for _ in range(TRAINING.epochs if epochs is None else epochs):
            order = [torch.randperm(inputs.shape[1], generator=g) for g in generators]
            shuffled = torch.stack(order)
            for batch in shuffled.split(TRAINING.batch_size or inputs.shape[1], dim=1):
                optimiser.zero_grad()
                outputs = _outputs(inputs[rows, batch], weights, biases)
                _loss(outputs, targets[rows, batch]).backward()
                optimiser.step()
    made = {f"{i}.weight": w.detach().mT.contiguous() for i, w in enumerate(weights)}
    made |= {f"{i}.bias": b.detach().squeeze(1) for i, b in enumerate(biases)}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(made, path)


def _first_weights(widths: tuple[int, ...], seeds: int) -> tuple[list[Tensor], list[Tensor]]:
    models = []
    for seed in range(seeds):
        with seeded(seed):
            models.append(perceptron(widths, nn.SiLU, DROPOUT))
    layers = [i for i, layer in enumerate(models[0]) if isinstance(layer, nn.Linear)]
    weights = [torch.stack([m[i].weight.detach().T for m in models]) for i in layers]
    biases = [torch.stack([m[i].bias.detach().unsqueeze(0) for m in models]) for i in layers]
    return [w.contiguous().requires_grad_() for w in weights], [b.requires_grad_() for b in biases]


def _outputs(inputs: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        inputs = torch.baddbmm(bias, inputs, weight)
        if number < len(weights) - 1:
            inputs = functional.dropout(functional.silu(inputs), DROPOUT)
    return inputs


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean of each network, summed over networks."""
    total = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="sum")
    return total / targets.shape[1]
