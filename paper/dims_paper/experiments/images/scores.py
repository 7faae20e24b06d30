"""What is kept of draws for every image, and two methods compared on the same resampled images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dims
from dims.commands.pages.trajectories import rounded
from dims_paper.cache import load_tensors, read_json, save_tensors, write_json
from dims_paper.datasets.images import Images, load_images
from dims_paper.experiments.images.settings import ImageSettings
from dims_paper.schema import Difference, Row, Run

OOD_SETS = {
    "mnist": ("emnist_mnist", "emnist_letters", "fashion_mnist", "kmnist"),
    "fashion_mnist": ("emnist_mnist", "emnist_letters", "kmnist", "mnist"),
}
COMPARED = ("low_rank", "full*", "growing*")  # also those of a study
BINS = 10
RESAMPLES = 1000
_PREFIX, _OLD_PREFIX = "ood.", "foreign."  # old name


@dataclass(frozen=True, eq=False)
class Gallery:
    """The images methods are judged on."""

    test: Images
    ood: dict[str, Images]


@dataclass(frozen=True, eq=False)
class PerImage:
    """One number an image: the means of the first four are the metrics of that name."""

    per_sample_accuracy: Tensor
    per_sample_nll: Tensor
    ensemble_accuracy: Tensor
    ensemble_nll: Tensor
    confidence: Tensor  # of the ensemble, as the next two
    doubt: Tensor  # −log of the largest probability
    ood_doubt: dict[str, Tensor]


def load_gallery(dataset: str, device: str, limit: int | None = None) -> Gallery:
    """The test set and its OOD sets, or the first few images of each."""

    def load(name: str) -> Images:
        images = load_images(name, "test")
        return Images(images.inputs[:limit].to(device), images.targets[:limit].to(device))

    return Gallery(load(dataset), {name: load(name) for name in OOD_SETS[dataset]})


def per_image_of(test: Any, ood: Mapping[str, Any], targets: Tensor) -> PerImage:
    """The numbers of each image, from the predictives of the test set and of OOD sets."""
    log_p = test.log_probabilities
    top = (mean := dims.metrics.ensemble_log_probabilities(log_p)).max(-1)
    nll = -log_p.double().gather(-1, targets.expand(len(log_p), -1).unsqueeze(-1)).squeeze(-1)
    doubts = {
        name: -dims.metrics.ensemble_log_probabilities(predictive.log_probabilities).amax(-1)
        for name, predictive in ood.items()
    }
    return PerImage(
        per_sample_accuracy=(log_p.argmax(-1) == targets).double().mean(0),
        per_sample_nll=nll.mean(0),
        ensemble_accuracy=(top.indices == targets).double(),
        ensemble_nll=-mean.gather(-1, targets.unsqueeze(-1)).squeeze(-1).double(),
        confidence=top.values.exp().double(),
        doubt=-top.values,
        ood_doubt=doubts,
    )


def distributions(scores: PerImage) -> dict[str, Any]:
    """What a page draws of the ensemble: histograms of its confidence in and out of distribution,
    as shares of 20 bins, and its reliability diagram (None: an empty bin)."""
    # Draws that are sure average to k/S, on the edge of a bin; files keep seven digits of it.
    inside = scores.confidence.double().round(decimals=6)
    outside = {
        name: (-doubt.double()).exp().round(decimals=6) for name, doubt in scores.ood_doubt.items()
    }

    def histogram(confidence: Tensor) -> Any:
        return rounded(dims.metrics.confidence_histogram(confidence), 4)

    bins = dims.metrics.calibration_bins(inside, scores.ensemble_accuracy.bool())
    return {
        "confidence": {
            "in_distribution": histogram(inside),
            "ood": {
                n: rounded(dims.metrics.confidence_histogram(v), 4) for n, v in outside.items()
            },
        },
        "calibration": {name: rounded(values, 4) for name, values in bins._asdict().items()},
    }


def compare_pairs(ours: PerImage, other: PerImage, seed: int = 0) -> dict[str, dict[str, float]]:
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
    for name, doubt in ours.ood_doubt.items():
        outside = _weights(len(doubt), seed + 1, device)
        found[f"auroc_{name}"] = weighted_auroc(
            ours.doubt, doubt, weights, outside
        ) - weighted_auroc(other.doubt, other.ood_doubt[name], weights, outside)
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
    """Of the ensemble under each row of weights, in bins of equal width."""
    bins = (scores.confidence * BINS).ceil().clamp(1, BINS).long() - 1
    gap = scores.ensemble_accuracy - scores.confidence
    in_bin = torch.nn.functional.one_hot(bins, BINS).double()
    sums = weights @ (in_bin * gap.unsqueeze(-1))
    return sums.abs().sum(-1) / weights.sum(-1)


def weighted_auroc(
    inside: Tensor, outside: Tensor, inside_weights: Tensor, outside_weights: Tensor
) -> Tensor:
    """P(outside > inside) + ½ P(=) under each row of weights, (R, N) and (R, M) → (R,)."""
    values, groups = torch.cat([inside, outside]).unique(return_inverse=True)

    def mass(weights: Tensor, group: Tensor) -> Tensor:
        zeros = weights.new_zeros(len(weights), len(values))
        return zeros.index_add_(1, group, weights)

    inside_mass = mass(inside_weights, groups[: len(inside)])
    outside_mass = mass(outside_weights, groups[len(inside) :])
    smaller = inside_mass.cumsum(1) - 0.5 * inside_mass
    total = inside_weights.sum(1) * outside_weights.sum(1)
    return (outside_mass * smaller).sum(1) / total


def save_per_image(scores: PerImage, path: Path) -> None:
    """As a file of tensors in float32, whose OOD sets are named `ood.NAME`."""
    named = {k: v for k, v in vars(scores).items() if isinstance(v, Tensor)}
    named |= {f"{_PREFIX}{name}": values for name, values in scores.ood_doubt.items()}
    save_tensors({name: tensor.float() for name, tensor in named.items()}, path)


def load_per_image(path: Path, device: str = "cpu") -> PerImage:
    """What `save_per_image` wrote, in this version or an earlier one."""
    named: dict[str, Any] = {}
    ood = {}
    for name, tensor in load_tensors(path, device).items():
        if name.startswith((_PREFIX, _OLD_PREFIX)):
            ood[name.partition(".")[2]] = tensor.double()
        else:
            named[name] = tensor.double()
    return PerImage(**named, ood_doubt=ood)


def compare_parts(settings: ImageSettings, out: Path) -> list[Difference]:
    """The differences between the rows of all parts that are there, also written beside them.

    Where there are no peers of the seed, those of seed 0 stand beside it: they are trained from
    starts of their own.
    """
    names = [f"{settings.name}_{part}.json" for part in COMPARED]
    own = [path for name in names for path in sorted(out.glob(name))]
    peers = out / f"{settings.name}_peers.json"
    if not peers.exists():
        peers = out / f"{replace(settings, seed=0).name}_peers.json"
    runs = [Run.from_json(read_json(path)) for path in (*own, peers) if path.exists()]
    differences = compare_rows(runs, out / "per_image", settings.device)
    what = {"dataset": settings.dataset, "seed": settings.seed, "wide": settings.wide}
    found = {**what, "differences": [entry.to_json() for entry in differences]}
    write_json(out / f"{settings.name}_differences.json", found)
    return differences


def compare_rows(runs: Sequence[Run], folder: Path, device: str = "cpu") -> list[Difference]:
    """Every row less MAP, and draws less ensembles of the same size, of one set and seed.

    Of draws looked at several times only the last are compared. The differences have intervals
    over resampled test images. `folder` holds the numbers per image.
    """
    rows = _last_rows(runs)
    alone = next(row for row in rows if row.method == "MAP")
    pairs = [(row, alone) for row in rows if row.method != "MAP"]
    for row in rows:
        if row.method.startswith(("DiMS full", "DiMS growing")):
            size = f"Ensemble ({row.draws})"
            pairs += [(row, peer) for peer in rows if peer.method == size]

    @cache
    def scores(name: str) -> PerImage:
        return load_per_image(folder / f"{name}.safetensors", device=device)

    return [
        Difference(
            row.method,
            row.t1,
            other.method,
            compare_pairs(scores(str(row.per_image)), scores(str(other.per_image))),
        )
        for row, other in pairs
    ]


def _last_rows(runs: Sequence[Run]) -> list[Row]:
    """One row of each method: MAP is in every part, and draws are looked at several times."""
    rows: dict[str, Row] = {}
    for row in (row for run in runs for row in run.rows):
        if (row.t1 or 0) > (rows.setdefault(row.method, row).t1 or 0):
            rows[row.method] = row
    return list(rows.values())
