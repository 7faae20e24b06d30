"""What a method says about every image, small enough to travel; scores are made of it later.

A file holds log-probabilities in float16: of each draw or member on test, held-out and other images
(D, N, 10), and of their average on corrupted test images (kinds × strengths, N, 10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims_paper.cache import load_tensors, read_json, save_tensors, write_json
from real_networks.corruptions import KINDS, STRENGTHS, corrupt
from real_networks.images import Collection
from real_networks.training import Trainer

CORRUPTED = 2_000  # test images that are corrupted: the first


class Gallery:
    """The images that every method is asked about."""

    def __init__(self, images: Collection, corrupted: int = CORRUPTED) -> None:
        self.images, self.count = images, corrupted
        self.clean = {"test": images.test.pixels, "held_out": images.held_out.pixels}
        self.clean |= {f"ood_{name}": pixels for name, pixels in images.ood.items()}

    @cached_property
    def corrupted(self) -> Tensor:
        """(kinds × strengths, N, 3, 32, 32)."""
        few = self.images.test.pixels[: self.count]
        return torch.stack([corrupt(few, kind, level) for kind in KINDS for level in STRENGTHS])

    def asked(
        self, trainer: Trainer, thetas: Sequence[Tensor], samples: int = 0, corrupted: bool = True
    ) -> dict[str, Tensor]:
        """The answers of all draws; see the head of this file."""
        found = {
            name: torch.stack([trainer.log_probabilities(t, pixels, samples) for t in thetas])
            for name, pixels in self.clean.items()
        }
        if corrupted:
            flat = self.corrupted.flatten(0, 1)
            sums = flat.new_zeros((), dtype=torch.float64)
            for theta in thetas:
                sums = sums + trainer.log_probabilities(theta, flat, samples).exp()
            mean = (sums / len(thetas)).log()
            found["corrupted"] = mean.view(*self.corrupted.shape[:2], -1)
        return {name: small(logs) for name, logs in found.items()}


def small(log_probabilities: Tensor) -> Tensor:
    return log_probabilities.clamp(min=-6e4).to(torch.float16).cpu()


def save(folder: Path, label: str, answers: dict[str, Tensor], record: dict[str, Any]) -> None:
    """Both files of a method; the record last, so that it tells that both are there."""
    save_tensors(answers, folder / f"{label}.safetensors")
    write_json(folder / f"{label}.json", record)


def is_there(folder: Path, label: str) -> bool:
    return (folder / f"{label}.json").exists()


def load(folder: Path, label: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    answers = load_tensors(folder / f"{label}.safetensors")
    return {name: logs.double() for name, logs in answers.items()}, read_json(
        folder / f"{label}.json"
    )


def average(log_probabilities: Tensor) -> Tensor:
    """(D, N, C) ↦ the log of the mean probability, (N, C), normalised again after rounding."""
    mean = log_probabilities.logsumexp(0) - math.log(len(log_probabilities))
    return mean.log_softmax(-1)


def of_many(logs: Tensor, labels: Tensor, draws: int) -> float:
    """The NLL that the average of so many draws would have, from that of a few, (S, N, C).

    What an average of D draws gains over one of them grows as 1 − 1/D where they are exchangeable
    and differ little.
    """
    few = len(logs)
    right = logs.gather(2, labels.expand(few, -1).unsqueeze(-1)).squeeze(-1)
    single = float(-right.mean())
    if few == 1:
        return single
    gain = single + float((right.logsumexp(0) - math.log(few)).mean())
    return single - gain * (1 - 1 / draws) / (1 - 1 / few)
