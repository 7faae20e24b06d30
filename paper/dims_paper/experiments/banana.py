"""`banana`: two interleaved classes in the plane; table and maps of the predictive uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dims.commands.pages.trajectories import rounded
from dims.sampling.posterior import Posterior
from dims_paper.datasets.banana import load_banana
from dims_paper.datasets.splits import Split
from dims_paper.experiments.classification import (
    evaluate,
    methods,
    moved,
    posterior_of,
    score_outputs,
)
from dims_paper.experiments.more_settings import MoreSettings, Problem
from dims_paper.experiments.runs import once
from dims_paper.experiments.training import Task, Training, mlp

__all__ = [
    "METRIC_NAMES",
    "MORE",
    "BananaSettings",
    "add_per_cent",
    "map_grid",
    "problem_of",
    "quick",
    "run_banana",
    "task_of",
]

# The table is in per cent, and its Brier score is a mean over the two classes.
METRIC_NAMES = {
    "accuracy_percent": "accuracy_percent",
    "ece_percent": "ece_percent",
    "mce_percent": "mce_percent",
    "brier": "brier_mean",
}

MORE = MoreSettings(recipe_draws=3)

MAP_X, MAP_Y = (-4.0, 4.0), (-4.0, 4.0)  # the data lie within ±3


@dataclass(frozen=True)
class BananaSettings:
    """Every number of the paper's appendix. "4-layer" is read as four hidden layers."""

    hidden: tuple[int, ...] = (16, 16, 16, 16)
    dropout: float = 0.5
    label_smoothing: float = 0.05
    training: Training = field(default_factory=lambda: Training(epochs=5_000))
    draws: int = 50
    friction: float = 0.01
    max_time: float = 100.0
    map_side: int = 48  # of the square grid on which predictions are kept for the maps
    seed: int = 0
    device: str = "cpu"  # where draws are made; the network is trained on the CPU


def quick(settings: BananaSettings) -> BananaSettings:
    """A minute of it: fewer epochs and draws, more friction, a shorter time."""
    training = replace(settings.training, epochs=500)
    return replace(settings, training=training, draws=5, friction=0.5, max_time=10.0)


def run_banana(
    settings: BananaSettings, out: Path, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The run of one seed, from the folder if it is there."""
    name = f"banana_{settings.seed}.json"
    return once(out / name, lambda: run_one(settings, report))


def run_one(
    settings: BananaSettings, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Train on 265 points and evaluate all methods on the other five thousand."""
    say = report or (lambda _: None)
    split = load_banana(settings.seed)
    task = task_of(split, settings)
    model = task.train(settings.seed, lambda part: say(f"training {100 * part:.0f} %"))
    result = evaluate(
        model,
        split,
        methods((settings.friction,), settings.max_time),
        label_smoothing=settings.label_smoothing,
        draws=settings.draws,
        seed=settings.seed,
        report=say,
        grid=map_grid(settings.map_side),
        device=settings.device,
    )
    for row in result["rows"]:
        add_per_cent(row)
    shown = torch.cat([split.train_inputs, split.train_targets.unsqueeze(-1)], dim=-1)
    return {
        "experiment": "banana",
        "dataset": "banana",
        "settings": asdict(settings),
        "map": {"x": list(MAP_X), "y": list(MAP_Y), "side": settings.map_side},
        "points": rounded(shown, 4),
        **result,
    }


def task_of(split: Split, settings: BananaSettings) -> Task:
    """The network and how it is trained."""

    def summed_loss(outputs: Tensor, targets: Tensor) -> Tensor:
        # A sum, as in the published Snelson example: under a mean the weight decay wins, and the
        # network ends as a constant.
        return nn.functional.cross_entropy(
            outputs, targets, label_smoothing=settings.label_smoothing, reduction="sum"
        )

    return Task(
        lambda: mlp((2, *settings.hidden, 2), nn.SiLU, settings.dropout),
        split.train_inputs,
        split.train_targets,
        summed_loss,
        settings.training,
    )


def problem_of(settings: BananaSettings) -> Problem:
    """The network, for the rows that the paper has not."""
    split = load_banana(settings.seed)
    there = moved(split, settings.device)
    grid = map_grid(settings.map_side).to(settings.device)

    def score(_: Posterior, outputs: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        scores = score_outputs(outputs, there, grid)
        add_per_cent(scores)
        return scores

    return Problem(
        name=f"banana_{settings.seed}",
        facts={"experiment": "banana", "dataset": "banana"},
        task=task_of(split, settings),
        posterior=lambda model: posterior_of(
            model.to(settings.device), there, settings.label_smoothing
        ),
        score=score,
        draws=settings.draws,
        seed=settings.seed,
        rla_time=1.0,
        frictions=(settings.friction,),
        max_time=settings.max_time,
    )


def add_per_cent(row: dict[str, Any]) -> None:
    """What the paper's table has in per cent, beside the same as a part of one."""
    for part in ("train", "test"):
        for scores in row[part].values():
            scores |= {f"{m}_percent": 100 * scores[m] for m in ("accuracy", "ece", "mce")}


def map_grid(side: int) -> Tensor:
    """The centres of a square grid well beyond the data, row by row from below, (side², 2)."""
    x, y = (torch.linspace(*ends, side, dtype=torch.float64) for ends in (MAP_X, MAP_Y))
    return torch.cartesian_prod(y, x).flip(-1)
