"""How good draws are on images: in distribution, on foreign images, and against another method.

A method is judged by its log-probabilities (S, N, C) on the test set and on foreign sets. What is
kept per image lets two methods be compared on the same resampled test sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from dims.commands.pages.trajectories import rounded
from dims.prediction.metrics import (
    calibration_bins,
    classification_metrics,
    confidence_histogram,
    ensemble_log_probabilities,
    ood_metrics,
)
from dims_paper.datasets.images import Images, load_images
from dims_paper.experiments.runs import save_tensors

__all__ = [
    "FOREIGN",
    "Gallery",
    "PerImage",
    "compare_pairs",
    "distributions",
    "load_gallery",
    "load_per_image",
    "save_per_image",
    "score",
    "weighted_auroc",
]

FOREIGN = {
    "mnist": ("emnist_mnist", "emnist_letters", "fashion_mnist", "kmnist"),
    "fashion_mnist": ("emnist_mnist", "emnist_letters", "kmnist", "mnist"),
}
BINS = 10
RESAMPLES = 1000
_PREFIX = "foreign."


@dataclass(frozen=True, eq=False)
class Gallery:
    """The images methods are judged on."""

    test: Images
    foreign: dict[str, Images]


@dataclass(frozen=True, eq=False)
class PerImage:
    """One number an image: the means of the first three are the metrics of that name."""

    per_sample_accuracy: Tensor
    per_sample_nll: Tensor
    ensemble_accuracy: Tensor
    ensemble_nll: Tensor
    confidence: Tensor  # of the averaged predictive, as the next two
    doubt: Tensor  # −log of the largest probability
    foreign_doubt: dict[str, Tensor]


def load_gallery(dataset: str, device: str, limit: int | None = None) -> Gallery:
    """The test set and its foreign sets, or the first few images of each."""

    def load(name: str) -> Images:
        images = load_images(name, "test")
        return Images(images.inputs[:limit].to(device), images.targets[:limit].to(device))

    return Gallery(load(dataset), {name: load(name) for name in FOREIGN[dataset]})


def score(
    log_probabilities: Callable[[Tensor], Tensor], gallery: Gallery
) -> tuple[dict[str, Any], PerImage]:
    """All metrics in both readings, and what a comparison with another method needs."""
    targets = gallery.test.targets
    known = log_probabilities(gallery.test.inputs)
    mean = ensemble_log_probabilities(known)
    metrics: dict[str, Any] = {"test": classification_metrics(known, targets), "ood": {}}
    doubts = {}
    for name, images in gallery.foreign.items():
        foreign = log_probabilities(images.inputs)
        metrics["ood"][name] = ood_metrics(known, foreign)
        doubts[name] = -ensemble_log_probabilities(foreign).amax(-1)
    right = (known.argmax(-1) == targets).double()
    nll = -known.double().gather(-1, targets.expand(len(known), -1).unsqueeze(-1)).squeeze(-1)
    top = mean.max(-1)
    return metrics, PerImage(
        per_sample_accuracy=right.mean(0),
        per_sample_nll=nll.mean(0),
        ensemble_accuracy=(top.indices == targets).double(),
        ensemble_nll=-mean.gather(-1, targets.unsqueeze(-1)).squeeze(-1).double(),
        confidence=top.values.exp().double(),
        doubt=-top.values,
        foreign_doubt=doubts,
    )


def distributions(scores: PerImage) -> dict[str, Any]:
    """What a page draws of the averaged predictive: how often it is how confident on known and
    on foreign images, as shares of 20 bins, and its reliability diagram (None: an empty bin)."""
    # Draws that are sure average to k/S, on the edge of a bin; files keep seven digits of it.
    known = scores.confidence.double().round(decimals=6)
    foreign = {
        name: (-doubt.double()).exp().round(decimals=6)
        for name, doubt in scores.foreign_doubt.items()
    }
    bins = calibration_bins(known, scores.ensemble_accuracy.bool())
    return {
        "confidence": {
            "known": rounded(confidence_histogram(known), 4),
            "foreign": {n: rounded(confidence_histogram(v), 4) for n, v in foreign.items()},
        },
        "calibration": {name: rounded(values, 4) for name, values in bins._asdict().items()},
    }


def compare_pairs(ours: PerImage, other: PerImage, seed: int = 0) -> dict[str, Any]:
    """ours − other of every metric: its value and a 95 % interval over resampled images.

    The same images are drawn for both, so that what is hard for both cancels.
    """
    count, device = len(ours.confidence), ours.confidence.device
    weights = _weights(count, seed, device)
    names = ("per_sample_accuracy", "per_sample_nll", "ensemble_accuracy", "ensemble_nll")
    found = {
        name: (weights @ (getattr(ours, name) - getattr(other, name))) / count for name in names
    }
    found["ensemble_ece"] = _ece(ours, weights) - _ece(other, weights)
    for name, doubt in ours.foreign_doubt.items():
        foreign = _weights(len(doubt), seed + 1, device)
        found[f"auroc_{name}"] = weighted_auroc(
            ours.doubt, doubt, weights, foreign
        ) - weighted_auroc(other.doubt, other.foreign_doubt[name], weights, foreign)
    return {name: _interval(values) for name, values in found.items()}


@lru_cache(maxsize=4)
def _weights(count: int, seed: int, device: torch.device) -> Tensor:
    """How often each image is drawn, (1 + resamples, count); in the first row each once."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(count, (RESAMPLES, count), generator=generator).to(device)
    weights = torch.zeros(RESAMPLES, count, dtype=torch.float64, device=device)
    weights.scatter_add_(1, rows, torch.ones_like(weights))
    return torch.cat([torch.ones_like(weights[:1]), weights])


def _interval(values: Tensor) -> dict[str, float]:
    """The first value is that of all images, the rest are of resampled ones."""
    low, high = values[1:].quantile(torch.tensor([0.025, 0.975]).to(values)).tolist()
    return {"difference": float(values[0]), "low": low, "high": high}


def _ece(scores: PerImage, weights: Tensor) -> Tensor:
    """Of the averaged predictive under each row of weights, in bins of equal width."""
    bins = (scores.confidence * BINS).ceil().clamp(1, BINS).long() - 1
    gap = scores.ensemble_accuracy - scores.confidence
    in_bin = torch.nn.functional.one_hot(bins, BINS).double()
    sums = weights @ (in_bin * gap.unsqueeze(-1))
    return sums.abs().sum(-1) / weights.sum(-1)


def weighted_auroc(
    known: Tensor, foreign: Tensor, known_weights: Tensor, foreign_weights: Tensor
) -> Tensor:
    """P(foreign > known) + ½ P(=) under each row of weights, (R, N) and (R, M) → (R,)."""
    values, groups = torch.cat([known, foreign]).unique(return_inverse=True)
    below, above = groups[: len(known)], groups[len(known) :]

    def mass(weights: Tensor, group: Tensor) -> Tensor:
        zeros = weights.new_zeros(len(weights), len(values))
        return zeros.index_add_(1, group, weights)

    known_mass, foreign_mass = mass(known_weights, below), mass(foreign_weights, above)
    smaller = known_mass.cumsum(1) - 0.5 * known_mass
    total = known_weights.sum(1) * foreign_weights.sum(1)
    return (foreign_mass * smaller).sum(1) / total


def save_per_image(scores: PerImage, path: Path) -> None:
    """As a file of tensors in float32, whose foreign sets are named `foreign.NAME`."""
    named = {k: v for k, v in vars(scores).items() if isinstance(v, Tensor)}
    named |= {f"{_PREFIX}{name}": values for name, values in scores.foreign_doubt.items()}
    save_tensors({name: tensor.float() for name, tensor in named.items()}, path)


def load_per_image(path: Path, device: str = "cpu") -> PerImage:
    named = {name: tensor.double() for name, tensor in load_file(path, device=device).items()}
    foreign = {k.removeprefix(_PREFIX): v for k, v in named.items() if k.startswith(_PREFIX)}
    return PerImage(
        **{k: v for k, v in named.items() if not k.startswith(_PREFIX)}, foreign_doubt=foreign
    )
