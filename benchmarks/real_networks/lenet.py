"""LeNet on MNIST or Fashion-MNIST: tuned ensembles of 20 beside 20 draws of DiMS.

Learning rate, weight decay and length are chosen on 5 000 held-out training images with small
ensembles, then three ensembles are trained on all images. The first member of each is where 20
draws start. The same held-out images choose prior, energy and time of the motion. Each search is
on the clock of those whom it serves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

import dims
from dims_paper.cache import kept, kept_tensors, read_json, save_tensors, write_json
from dims_paper.datasets.images import load_images
from dims_paper.training import lenet
from real_networks.budget import Budget, alone, stopwatch
from real_networks.predictions import is_there, save
from real_networks.rows_training import RowsTrainer

OOD = {
    "mnist": ("emnist_letters", "kmnist", "fashion_mnist"),
    "fashion_mnist": ("emnist_mnist", "emnist_letters", "kmnist", "mnist"),
}
HELD_OUT = 5_000
SUBSETS = (1, 2, 5, 10, 20)


@dataclass(frozen=True)
class Settings:
    members: int = 20
    trainings: int = 3
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    decays: tuple[float, ...] = (0.0, 1e-4)
    lengths: tuple[int, ...] = (15, 30)
    small: int = 3  # members of the ensembles that choose
    times: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    friction: float = 0.1
    rank: int = 60
    curvature_images: int = 6_000
    train_images: int | None = None
    test_images: int | None = None


QUICK = Settings(
    2, 1, (3e-3, 1e-2), (0.0,), (1,), 1, (0.005, 0.01), 0.1, 3, 32, train_images=192, test_images=24
)


class LeNets:
    """One data set in one folder."""

    def __init__(
        self, dataset: str, folder: Path, device: str, budget: Budget, settings: Settings
    ) -> None:
        self.dataset, self.budget, self.settings = dataset, budget, settings
        self.folder, self.device = folder / dataset, torch.device(device)
        images = load_images(dataset, "train")
        centre, scale = images.inputs.mean(), images.inputs.std()
        count, few = settings.train_images, settings.test_images
        self.inputs = ((images.inputs[:count] - centre) / scale).to(device)
        self.labels = images.targets[:count].to(device)
        names = {"test": dataset, **{f"ood_{name}": name for name in OOD[dataset]}}
        loaded = {key: load_images(name, "test") for key, name in names.items()}
        self.asked = {k: ((i.inputs[:few] - centre) / scale).to(device) for k, i in loaded.items()}
        self.test_labels = loaded["test"].targets[:few].to(device)

    def say(self, line: str) -> None:
        print(f"[{self.budget.left:6.0f} s left] {self.dataset}: {line}", flush=True)

    @property
    def held(self) -> int:
        """Training images that choose."""
        return HELD_OUT if self.settings.train_images is None else len(self.labels) // 4

    @cached_property
    def chosen(self) -> dict[str, Any]:
        """The tried settings, the best of them, and the seconds of the search."""
        return kept(
            self.folder / "search.json",
            self._search,
            lambda found, path: write_json(path, found),
            read_json,
        )

    def _search(self) -> dict[str, Any]:
        s, tried = self.settings, list[dict[str, Any]]()
        pairs = [(rate, decay) for rate in s.rates for decay in s.decays]
        held, best = self.held, (math.inf, torch.empty(0))
        rows = len(pairs) * s.small
        trainer = RowsTrainer(lenet, self.inputs[:-held], self.labels[:-held], rows)
        columns = torch.tensor(pairs).repeat_interleave(s.small, 0).to(self.device)
        seeds = list(range(900, 900 + s.small)) * len(pairs)
        with alone(self.device), stopwatch(self.device) as seconds:
            for epochs in s.lengths:
                thetas = trainer.run(seeds, columns[:, 0], columns[:, 1], epochs)
                for pair, some in zip(pairs, thetas.split(s.small), strict=True):
                    logs = outputs(trainer, some, self.inputs[-held:]).logsumexp(0)
                    logs = logs - math.log(len(some))
                    nll = -logs.gather(1, self.labels[-held:, None]).mean()
                    row = {"rate": pair[0], "decay": pair[1], "epochs": epochs, "nll": float(nll)}
                    tried.append(row)
                    if nll < best[0]:
                        best = (float(nll), some)
                    self.say(str(row))
            taken = seconds()
        save_tensors({"thetas": best[1].cpu()}, self.folder / "search.safetensors")
        single_row = RowsTrainer(lenet, self.inputs, self.labels, 1, compiled=False)
        with alone(self.device), stopwatch(self.device) as seconds:
            single_row.run([0], columns[:1, 0], columns[:1, 1], 1)
            single = seconds() * max(s.lengths)  # of one network by itself, as a draw's start is
        good = [row for row in tried if math.isfinite(row["nll"])]
        return {
            "tried": tried,
            "best": min(good, key=lambda r: r["nll"]),
            "seconds": taken,
            "single": single,
        }

    @cached_property
    def trainer(self) -> RowsTrainer:
        return RowsTrainer(lenet, self.inputs, self.labels, self.settings.members)

    def ensemble(self, number: int) -> tuple[Tensor, float]:
        """Training `number`: weights (20, K), and its seconds without the search."""

        def make() -> dict[str, Tensor]:
            best, members = self.chosen["best"], self.settings.members
            trainer = self.trainer
            seeds = list(range(100 * number, 100 * number + members))
            column = torch.ones(members, device=self.device)
            with alone(self.device), stopwatch(self.device) as seconds:
                thetas = trainer.run(
                    seeds, best["rate"] * column, best["decay"] * column, best["epochs"]
                )
                taken = seconds()
            self.say(f"ensemble {number}: {taken:.1f} s")
            return {"thetas": thetas.cpu(), "seconds": torch.tensor(taken, dtype=torch.float64)}

        path = self.folder / "networks" / f"ensemble_{number}.safetensors"
        found = kept_tensors(path, make, str(self.device))
        return found["thetas"], float(found["seconds"])

    def predict(self, label: str, thetas: Tensor, record: dict[str, Any]) -> None:
        """Answers of the average of the first 1, 2, … draws, and each draw's on the right class."""
        folder = self.folder / "predictions"
        if is_there(folder, label):
            return
        sizes = [size for size in SUBSETS if size <= len(thetas)]
        found: dict[str, Tensor] = {}
        for name, images in self.asked.items():
            logs = outputs(self.plain, thetas, images)
            averages = torch.stack([logs[:m].logsumexp(0) - math.log(m) for m in sizes])
            if name == "test":
                found["test"] = averages
                right = self.test_labels.expand(len(thetas), -1).unsqueeze(-1)
                found["right"] = logs.gather(2, right).squeeze(-1)
            else:
                found[name] = -(averages.exp() * averages).sum(-1)  # entropy
        answers = {k: v.clamp(min=-6e4).to(torch.float16).cpu() for k, v in found.items()}
        record = {"label": label, "draws": len(thetas), "sizes": sizes, **record}
        right = found["test"][-1].argmax(-1) == self.test_labels
        record["test_accuracy"] = float(right.double().mean())
        nll = -found["test"][-1].gather(1, self.test_labels[:, None]).mean()
        save(folder, label, answers, record)
        self.say(f"{label}: {record['test_accuracy']:.4f}, NLL {float(nll):.4f}")

    @cached_property
    def plain(self) -> dims.LossSurface:
        """Predicts with any weights."""
        model = lenet().to(self.device).eval()
        few = (self.inputs[:8], self.labels[:8])
        return dims.LossSurface(model, few, "classification")


def outputs(network: Any, thetas: Tensor, images: Tensor) -> Tensor:
    """Log-probabilities (S, N, 10)."""
    if isinstance(network, RowsTrainer):
        module, vector = network.module, network.vector

        def one(theta: Tensor, part: Tensor) -> Tensor:
            return torch.func.functional_call(module, vector.unflatten(theta), (part,))

        with torch.no_grad():
            parts = [torch.stack([one(t, part) for t in thetas]) for part in images.split(10_000)]
        return log_softmax(torch.cat(parts, 1).double(), -1)
    return log_softmax(network.predict(thetas, images).double(), -1)
