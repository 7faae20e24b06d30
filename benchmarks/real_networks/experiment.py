"""One kind of network on CIFAR-10 in one folder: what is there is not made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from dims_paper.cache import kept, kept_tensors, read_json, write_json
from real_networks.budget import Budget, alone, stopwatch
from real_networks.images import Collection, load
from real_networks.predictions import CORRUPTED, Gallery, average, is_there, save
from real_networks.training import Recipe, Trainer

RECIPES = {
    "resnet20": Recipe(epochs=100, rate=0.2, batch_size=256, warm_up=0.05),
    "resnet18": Recipe(epochs=30, rate=0.3),
    "tiny": Recipe(epochs=2, rate=0.1, batch_size=32),
}
RATES = (0.1, 0.2, 0.4)  # of which the held-out images choose, in short trainings
SHORT = 8  # epochs of those
HALVINGS = 2  # of the rate, where a training diverges


class Experiment:
    """Images, trainer, trained members and predictions."""

    def __init__(
        self, name: str, folder: Path, device: str, budget: Budget, quick: bool = False
    ) -> None:
        self.name = "tiny" if quick else name
        self.folder, self.budget, self.quick = folder / self.name, budget, quick
        self.device = torch.device(device)
        self.expected = 0.0  # seconds of one more training

    def say(self, line: str) -> None:
        print(f"[{self.budget.left:6.0f} s left] {self.name}: {line}", flush=True)

    @cached_property
    def images(self) -> Collection:
        found = load(str(self.device), self.quick)
        self.say(f"{len(found.train.labels)} training images")
        return found

    @cached_property
    def gallery(self) -> Gallery:
        return Gallery(self.images, 4 if self.quick else CORRUPTED)

    @cached_property
    def trainer(self) -> Trainer:
        return Trainer(self.name, self.images, self.recipe)

    @cached_property
    def recipe(self) -> Recipe:
        """With the learning rate that held-out images chose."""
        recipe = RECIPES[self.name]
        if self.name == "resnet18":  # too long to search for
            return recipe
        path = self.folder / "rates.json"
        tried = kept(path, self._tried, lambda found, file: write_json(file, found), read_json)
        fine = [row for row in tried if row["nll"] is not None]
        best = min(fine, key=lambda row: row["nll"])["rate"] if fine else min(RATES) / 2
        found = replace(recipe, rate=best)
        slower = self.folder / "slower.json"  # a longer training at that rate diverged
        if slower.exists():
            found = replace(found, rate=min(found.rate, read_json(slower)["rate"]))
        return found

    def _tried(self) -> list[dict[str, Any]]:
        recipe = RECIPES[self.name]
        epochs = 1 if self.quick else SHORT
        trainer = Trainer(self.name, self.images, recipe)
        self.trainer = trainer  # compiled once
        rows: list[dict[str, Any]] = []
        for rate in RATES[:1] if self.quick else RATES:
            short = replace(recipe, rate=rate, warm_up=0.2)  # of few epochs
            with stopwatch(self.device) as seconds:
                try:
                    theta, _ = trainer.run(trainer.fresh(99), epochs, short.rate_at, 99)
                    nll = self.held_out_nll(theta)
                except FloatingPointError:
                    nll = None
                rows.append({"rate": rate, "nll": nll, "seconds": seconds(), "epochs": epochs})
            self.say(f"learning rate {rate}: held-out NLL {nll}, {rows[-1]['seconds']:.1f} s")
        return rows

    def held_out_nll(self, *thetas: Tensor) -> float:
        """Of the average of some networks."""
        held = self.images.held_out
        logs = [self.trainer.log_probabilities(theta, held.pixels) for theta in thetas]
        mean = torch.stack(logs).exp().mean(0).log()
        return float(nll_loss(mean, held.labels))

    def _path(self, seed: int, kind: str = "") -> Path:
        return self.folder / "networks" / f"{kind}{seed}.safetensors"

    def member(self, seed: int) -> tuple[Tensor, float]:
        """A trained network's weights, and the seconds of its training."""
        path = self._path(seed)
        if not path.exists():
            _ = self.recipe  # its search may make the trainer
            trainer = self.trainer
            trainer.prepare()
            self.budget.need(self.expected, f"network {seed}")
            with alone(self.device), stopwatch(self.device) as seconds:
                theta = self._trained(trainer, seed)
                taken = torch.tensor(seconds(), dtype=torch.float64)
            self.expected = 1.1 * float(taken) if self.device.type == "cuda" else 0.0
            kept_tensors(path, lambda: {"theta": theta.cpu(), "seconds": taken})
            self.say(f"network {seed}: {float(taken):.1f} s, NLL {self.held_out_nll(theta):.4f}")
        found = kept_tensors(path, dict, str(self.device))
        return found["theta"], float(found["seconds"])

    def keep_averaged(self, seed: int, theta: Tensor, seconds: float) -> None:
        """The mean of SWAG's iterates, and the seconds of all that led to it."""
        taken = torch.tensor(seconds, dtype=torch.float64)
        kept_tensors(self._path(seed, "averaged_"), lambda: {"theta": theta, "seconds": taken})

    def has_averaged(self, seed: int) -> bool:
        return self._path(seed, "averaged_").exists()

    def averaged(self, seed: int) -> tuple[Tensor, float]:
        """As `member`, of the network that averages SGD's iterates after the training."""
        path = self._path(seed, "averaged_")
        if not self.has_averaged(seed):
            raise FileNotFoundError(f"{path}: there is none yet; run the step swag first")
        found = kept_tensors(path, dict, str(self.device))
        return found["theta"], float(found["seconds"])

    def _trained(self, trainer: Trainer, seed: int) -> Tensor:
        """By the recipe; where that diverges, at half its rate, from then on."""
        for _ in range(HALVINGS):
            recipe = self.recipe
            try:
                return trainer.run(trainer.fresh(seed), recipe.epochs, recipe.rate_at, seed)[0]
            except FloatingPointError:
                self.recipe = replace(recipe, rate=recipe.rate / 2)
                write_json(self.folder / "slower.json", {"rate": self.recipe.rate})
                self.say(f"network {seed} diverged at learning rate {recipe.rate}: now half")
        recipe = self.recipe
        return trainer.run(trainer.fresh(seed), recipe.epochs, recipe.rate_at, seed)[0]

    def predict(
        self,
        label: str,
        make: Callable[[], tuple[Sequence[Tensor], dict[str, Any]]],
        *,
        samples: int = 0,
        trainer: Trainer | None = None,
        corrupted: bool = True,
    ) -> None:
        """Ask the networks that `make` returns about all images, unless that was done."""
        folder = self.folder / "predictions"
        if is_there(folder, label):
            return
        thetas, record = make()
        used = trainer or self.trainer
        with stopwatch(self.device) as seconds:
            answers = self.gallery.asked(used, thetas, samples, corrupted)
            record = {"label": label, "draws": len(thetas), **record}
            record["prediction_seconds"] = seconds()
        labels = self.images.test.labels.cpu()
        right = answers["test"].double().exp().mean(0).argmax(-1) == labels
        record["test_accuracy"] = float(right.double().mean())
        mean = average(answers["held_out"].double())
        record["held_out_nll"] = float(nll_loss(mean, self.images.held_out.labels.cpu()))
        save(folder, label, answers, record)
        self.say(
            f"{label}: accuracy {record['test_accuracy']:.4f}, held-out NLL "
            f"{record['held_out_nll']:.4f}, {record.get('seconds', 0.0):.1f} s"
        )
