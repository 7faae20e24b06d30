"""What the experiments on images share: the sets, the trained network, draws, and their rows.

Everything that took long lies in a folder and is not made again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.mechanics.batch import Progress
from dims.model.torch_support.tf32 import convolutions_round
from dims.model.training import Training, seeded
from dims_paper.cache import kept_network, kept_tensors
from dims_paper.datasets.images import Images, load_images
from dims_paper.experiments.images.scores import (
    Gallery,
    distributions,
    load_gallery,
    per_image_of,
    save_per_image,
)
from dims_paper.experiments.images.settings import SIGNS, ImageSettings
from dims_paper.experiments.problem import Report
from dims_paper.schema import Row, Run
from dims_paper.scoring import Evaluation, draws_of
from dims_paper.training import train_together

Look = tuple[dims.Draws, dict[str, Any]]  # draws at a time, and the fields of their row

WORTH_COMPILING = 30_000  # images: it takes half a minute, and halves the time of a gradient
AT_A_TIME = ("loss", "gradient_norm", "kinetic_energy")  # (T, S) in a file of draws


class ImageRun:
    """One part of an experiment: what it loads once, and the rows it has scored."""

    def __init__(
        self, settings: ImageSettings, out: Path, name: str, report: Report | None
    ) -> None:
        self.settings, self.out, self.name = settings, out, name
        self.say = report or (lambda _: None)
        self.rows: list[Row] = []
        images = load_images(settings.dataset, "train")
        count, device = settings.train_images, settings.device
        self.centre, self.scale = images.inputs.mean(), images.inputs.std()
        self.images = self.standardised(
            Images(images.inputs[:count].to(device), images.targets[:count].to(device))
        )
        gallery = load_gallery(settings.dataset, device, settings.test_images)
        ood = {name: self.standardised(images) for name, images in gallery.ood.items()}
        self.gallery = Gallery(self.standardised(gallery.test), ood)
        test = self.gallery.test
        self.evaluation = Evaluation(
            {"test": (test.inputs, test.targets)},
            ood={name: images.inputs for name, images in ood.items()},
            figure=lambda _, found: {
                "per_image": per_image_of(
                    found["test"], {name: found[name] for name in ood}, test.targets
                )
            },
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

    def fast(self, surface: dims.LossSurface) -> dims.LossSurface:
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
        tell = lambda part: self.say(f"{what} {100 * part:.0f} %")  # noqa: E731
        return train_together(models, *data, loss, training, seeds, tell)

    def file_of(self, label: str, end: float) -> Path:
        """Where draws by a method at a time lie."""
        return self.out / "draws" / f"{self.name}_{slug(label)}_{end:g}.safetensors"

    def sampled(
        self, label: str, posterior: dims.Posterior, draws: int, sampler: dims.RLA | dims.DiMS
    ) -> Iterator[Look]:
        """Draws by `posterior.sample` at every saved time, from their file if it is there."""
        times, device = sampler.save_at, self.settings.device

        def make() -> dict[str, Tensor]:
            progress = self.clock(label, 0.0, times[-1])
            drawn, seconds = self.timed(
                lambda: posterior.sample(draws, sampler, seed=self.settings.seed, progress=progress)
            )
            seen = [drawn.at(t) for t in times]
            return {
                "positions": torch.stack([look.parameters for look in seen]),
                **{n: torch.stack([getattr(look, n) for look in seen]) for n in AT_A_TIME},
                "evaluations": drawn.evaluations,
                "energy_violation": drawn.energy_violation,
                "energy_jump": torch.zeros_like(drawn.energy_violation),
                "status": torch.tensor([status.code for status in drawn.status if status]),
                "seconds": torch.tensor(seconds, dtype=torch.float64),
            }

        kept = kept_tensors(self.file_of(label, times[-1]), make, device)
        eta0 = getattr(sampler, "friction", None)
        yield from self.looks(posterior.surface, kept, times, eta0, posterior.surface.points)

    def looks(
        self,
        surface: dims.LossSurface,
        kept: Mapping[str, Tensor],
        times: Sequence[float],
        eta0: float | None,
        images: int,
    ) -> Iterator[Look]:
        """What a file of draws holds, time by time."""
        # Of the motion up to the last of the times:
        whole = {
            name: kept[name].tolist() for name in ("evaluations", "energy_violation", "energy_jump")
        }
        whole["status"] = [dims.Status.from_code(int(code)).name for code in kept["status"]]
        for index, t in enumerate(times):
            thetas = kept["positions"][index]
            yield (
                draws_of(surface, thetas),
                {
                    "t1": t,
                    "eta0": eta0,
                    "draws": len(thetas),
                    "seconds": float(kept["seconds"]),
                    "numbers": {"images": images},
                    "diagnostics": {n: kept[n][index].tolist() for n in AT_A_TIME} | whole,
                },
            )

    def add(self, label: str, drawn: dims.Draws, **fields: Any) -> None:
        """Score a method; its numbers per image go to a file."""
        self.say(f"scoring {label}")
        row = self.evaluation.row(label, drawn, **fields)
        marks = [f"{value:g}" for value in (row.t1, row.eta0) if value is not None]
        name = "_".join([self.name, slug(label), *marks])
        scores = row.figure["per_image"]
        save_per_image(scores, self.out / "per_image" / f"{name}.safetensors")
        self.rows.append(replace(row, figure=distributions(scores), per_image=name))

    def add_made(self, label: str, make: Callable[[], dims.Draws]) -> None:
        """Score draws that are made in one call."""
        self.say(label)
        drawn, seconds = self.timed(make)
        self.add(label, drawn, seconds=seconds, draws=len(drawn))

    def result(self, part: Any, surface: dims.LossSurface | None, facts: dict[str, Any]) -> Run:
        s = self.settings
        cuda = s.device != "cpu"
        size = {} if surface is None else {"parameters": surface.size, "points": surface.points}
        return Run(
            experiment="mnist",
            dataset=s.dataset,
            seed=s.seed,
            part=self.name,
            settings=asdict(s) | asdict(part),
            facts={
                **size,
                **facts,
                "precision": "TF32 in convolutions" if cuda and convolutions_round() else "float32",
                "accelerator": torch.cuda.get_device_name() if cuda else "CPU",
                "peak_memory_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else None,
            },
            rows=self.rows,
        )

    def timed(self, make: Callable[[], Any]) -> tuple[Any, float]:
        began = time.perf_counter()
        made = make()
        if self.settings.device != "cpu":
            torch.cuda.synchronize()
        return made, time.perf_counter() - began

    def clock(self, label: str, before: float, end: float) -> Callable[[Progress], None]:
        def tell(now: Progress) -> None:
            t = before + now.mean_time
            self.say(f"{label}, t = {t:.2f} of {end:g} {100 * t / end:.0f} %")

        return tell


def slug(label: str) -> str:
    """A label as a part of a file's name."""
    for name, sign in SIGNS.items():
        label = label.replace(f"{sign} =", name)
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-")
