"""What the experiments on images share: the sets, the network, start velocities, motion and scores.

Everything that took long lies in a folder and is not made again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dims.baselines.common import seeded
from dims.mechanics.batch import Progress
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.status import Status
from dims.model.torch_support.tf32 import convolutions_round
from dims.sampling.draws import Draws
from dims.surface.loss import LossSurface
from dims_paper.datasets.images import Images, load_images
from dims_paper.experiments.image_scores import (
    Gallery,
    distributions,
    load_gallery,
    save_per_image,
    score,
)
from dims_paper.experiments.launch import Launch, launch
from dims_paper.experiments.legs import Leg, follow
from dims_paper.experiments.mnist_settings import SIGNS, ImageSettings
from dims_paper.experiments.runs import kept_network
from dims_paper.experiments.training import Training, train_together

__all__ = ["ImageRun", "predictions", "predictions_of_networks", "slug"]

Report = Callable[[str], None]
Predict = Callable[[Tensor], Tensor]

WORTH_COMPILING = 30_000  # images: it takes half a minute, and halves the time of a gradient


class ImageRun:
    """One part of an experiment: what it loads once, and the rows it has scored."""

    def __init__(
        self, settings: ImageSettings, out: Path, name: str, report: Report | None
    ) -> None:
        self.settings, self.out, self.name = settings, out, name
        self.say = report or (lambda _: None)
        self.rows: list[dict[str, Any]] = []
        out.mkdir(parents=True, exist_ok=True)
        images = load_images(settings.dataset, "train")
        count, device = settings.train_images, settings.device
        self.centre, self.scale = images.inputs.mean(), images.inputs.std()
        self.images = self.standardised(
            Images(images.inputs[:count].to(device), images.targets[:count].to(device))
        )
        gallery = load_gallery(settings.dataset, device, settings.test_images)
        self.gallery = Gallery(
            self.standardised(gallery.test),
            {name: self.standardised(images) for name, images in gallery.foreign.items()},
        )

    def standardised(self, images: Images) -> Images:
        """As usual with these sets: mean 0 and deviation 1 over all pixels of the training set."""
        return Images((images.inputs - self.centre) / self.scale, images.targets)

    def some(self, count: int | None) -> tuple[Tensor, Tensor]:
        """So many of the training images, chosen at random by the seed; None: all."""
        if count is None or count >= len(self.images.inputs):
            return self.images.inputs, self.images.targets
        generator = torch.Generator().manual_seed(self.settings.seed)
        chosen = torch.randperm(len(self.images.inputs), generator=generator)[:count]
        chosen = chosen.to(self.settings.device)
        return self.images.inputs[chosen], self.images.targets[chosen]

    def fast(self, surface: LossSurface) -> LossSurface:
        """Its gradient compiled where that pays: on a GPU, with many images."""
        pays = self.settings.device != "cpu" and surface.points >= WORTH_COMPILING
        return surface.with_compiled_gradient() if pays else surface

    @cached_property
    def trained(self) -> nn.Module:
        """θ*, from the folder if it is there."""
        s = self.settings
        return kept_network(
            self.out / f"{s.name}_map.safetensors",
            lambda: s.network().to(s.device),
            lambda: self.train(s.training, [s.seed], "training")[0],
        )

    def train(self, training: Training, seeds: Sequence[int], what: str) -> list[nn.Module]:
        models = []
        for seed in seeds:
            with seeded(seed):
                models.append(self.settings.network().to(self.settings.device))
        data = (self.images.inputs, self.images.targets)
        loss = nn.functional.cross_entropy
        return train_together(models, *data, loss, training, seeds, self.part(what))

    def launched(self, data: tuple[Tensor, Tensor], draws: int, **how: Any) -> Launch:
        self.say("curvature and evidence")
        path = self.out / "draws" / f"{self.name}_launch.safetensors"
        return launch(path, self.trained, data, draws, self.settings.seed, **how)

    def draw(self, label: str, make: Callable[[], Draws]) -> None:
        """Score draws that are made in one call."""
        self.say(label)
        drawn, seconds = self.timed(make)

        def log_probabilities(x: Tensor) -> Tensor:
            return drawn.predict(x).log_probabilities

        self.add(label, log_probabilities, seconds=seconds, draws=len(drawn.parameters))

    def followed(
        self,
        label: str,
        start: Launch,
        dynamics: Dynamics,
        legs: Sequence[Leg],
        *,
        eta0: float | None = None,
        solver: str = "rattle",
        max_evaluations: int | None = None,
    ) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """Trajectories: the draws at every time of the legs, and what there is to know of each."""
        draws, end = self.out / "draws", legs[-1].times[-1]
        ways = follow(
            legs,
            start.position,
            start.velocities,
            dynamics,
            lambda leg: draws / f"{self.name}_{slug(label)}_{leg.times[-1]:g}.safetensors",
            solver=solver,
            max_evaluations=max_evaluations,
            progress=lambda began: self.clock(label, began, end),
        )
        for leg, kept in ways:
            for index, t in enumerate(leg.times):
                thetas = kept["positions"][index]
                yield (
                    thetas,
                    {
                        "t1": t,
                        "eta0": eta0,
                        "draws": len(thetas),
                        **{
                            name: kept[name][index].tolist()
                            for name in ("loss", "kinetic_energy", "gradient_norm")
                        },
                        # Of the motion up to the end of the leg:
                        "images": leg.surface.points,
                        "seconds": float(kept["seconds"]),
                        "evaluations": kept["evaluations"].tolist(),
                        "energy_violation": kept["energy_violation"].tolist(),
                        "energy_jump": kept["energy_jump"].tolist(),
                        "status": [Status.from_code(int(code)).name for code in kept["status"]],
                    },
                )

    def move(
        self,
        label: str,
        start: Launch,
        dynamics: Dynamics,
        legs: Sequence[Leg],
        *,
        eta0: float | None = None,
        max_evaluations: int | None = None,
        sizes: tuple[int, ...] = (),
        early: float | None = None,
    ) -> None:
        """Trajectories, and a row for every time at which they are looked at.

        At the end also of the first few draws (`sizes`), and of all with half of them at an early
        time instead.
        """
        seen: dict[float, Tensor] = {}
        entry: dict[str, Any] = {}
        for thetas, entry in self.followed(
            label, start, dynamics, legs, eta0=eta0, max_evaluations=max_evaluations
        ):
            seen[entry["t1"]] = thetas
            self.add(label, predictions(start.surface, thetas), **entry)
        end = legs[-1].times[-1]
        last = seen[end]
        # The first of the draws, but not all of them once more.
        for size in (size for size in sizes if size < len(last)):
            few = predictions(start.surface, last[:size])
            self.add(f"{label} ({size})", few, **{**entry, "draws": size})
        if early in seen and early != end:
            half = len(last) // 2
            mixed = predictions(start.surface, torch.cat([seen[early][:half], last[half:]]))
            facts = {key: entry[key] for key in ("t1", "eta0", "draws", "seconds")}
            self.add(f"{label}, half at {early:g}", mixed, **facts)

    def add(self, label: str, log_probabilities: Predict, **entry: Any) -> None:
        """Score a method; its numbers per image go to a file."""
        self.say(f"scoring {label}")
        metrics, per_image = score(log_probabilities, self.gallery)
        row = {"method": label, "t1": None, "eta0": None, "seconds": None, **entry}
        name = "_".join(
            [
                self.name,
                slug(label),
                *(f"{row[k]:g}" for k in ("t1", "eta0") if row[k] is not None),
            ]
        )
        save_per_image(per_image, self.out / "per_image" / f"{name}.safetensors")
        self.rows.append({**row, **metrics, **distributions(per_image), "per_image": name})

    def result(self, start: Launch | None, part: Any) -> dict[str, Any]:
        s = self.settings
        fitted: dict[str, Any] = {}
        if start is not None:
            fitted = {"parameters": start.surface.size, "points": start.surface.points}
            fitted |= start.facts
        cuda = s.device != "cpu"
        return {
            "experiment": "mnist",
            "dataset": s.dataset,
            "seed": s.seed,
            "part": self.name,
            "settings": asdict(s) | asdict(part),
            **fitted,
            "precision": "TF32 in convolutions" if cuda and convolutions_round() else "float32",
            "accelerator": torch.cuda.get_device_name() if cuda else "CPU",
            "peak_memory_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else None,
            "rows": self.rows,
        }

    def timed(self, make: Callable[[], Any]) -> tuple[Any, float]:
        began = time.perf_counter()
        made = make()
        if self.settings.device != "cpu":
            torch.cuda.synchronize()
        return made, time.perf_counter() - began

    def part(self, what: str) -> Callable[[float], None]:
        return lambda part: self.say(f"{what} {100 * part:.0f} %")

    def clock(self, label: str, before: float, end: float) -> Callable[[Progress], None]:
        def tell(now: Progress) -> None:
            t = before + now.mean_time
            self.say(f"{label}, t = {t:.2f} of {end:g} {100 * t / end:.0f} %")

        return tell


def predictions(surface: LossSurface, thetas: Tensor) -> Predict:
    return lambda x: torch.log_softmax(surface.predict(thetas, x), dim=-1)


def predictions_of_networks(networks: Sequence[nn.Module]) -> Predict:
    @torch.no_grad()
    def log_probabilities(x: Tensor) -> Tensor:
        outputs = [torch.cat([network(part) for part in x.split(4096)]) for network in networks]
        return torch.log_softmax(torch.stack(outputs), dim=-1)

    return log_probabilities


def slug(label: str) -> str:
    """A label as a part of a file's name."""
    for name, sign in SIGNS.items():
        label = label.replace(f"{sign} =", name)
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-")
