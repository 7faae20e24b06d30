"""`banana`: two interleaved classes in the plane; table and maps of the predictive uncertainty."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.commands.pages.trajectories import rounded
from dims.model.training import Training, perceptron
from dims_paper.cache import kept_run
from dims_paper.datasets.banana import load_banana
from dims_paper.experiments.additional import AdditionalSettings
from dims_paper.experiments.problem import Problem, Report, run_problem
from dims_paper.schema import Run, Scores
from dims_paper.scoring import Evaluation, calibration, classification_scores
from dims_paper.training import Task

METRIC_NAMES = {"brier": "brier_mean"}  # a mean over the two classes
ADDITIONAL = AdditionalSettings(reference_draws=3)

MAP_X, MAP_Y = (-4.0, 4.0), (-4.0, 4.0)  # the data lie within ±3
TRAINING = Training(epochs=5_000)


@dataclass(frozen=True)
class BananaSettings:
    """Every number of the paper's appendix. "4-layer" is read as four hidden layers."""

    hidden: tuple[int, ...] = (16, 16, 16, 16)
    dropout: float = 0.5
    label_smoothing: float = 0.05
    training: Training = TRAINING
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


def run_banana(settings: BananaSettings, out: Path, report: Report | None = None) -> Run:
    """The run of one seed, from the folder if it is there."""
    path = out / f"banana_{settings.seed}.json"
    return kept_run(path, lambda: run_problem(problem_of(settings), report))


def problem_of(settings: BananaSettings) -> Problem:
    """The network on 265 points, scored on the other five thousand and drawn on a grid."""
    split = load_banana(settings.seed)
    grid = map_grid(settings.map_side)
    shown = torch.cat([split.train_inputs, split.train_targets.unsqueeze(-1)], dim=-1)

    def summed_loss(outputs: Tensor, targets: Tensor) -> Tensor:
        # A sum, as in the published Snelson example: under a mean the weight decay wins, and the
        # network ends as a constant.
        return nn.functional.cross_entropy(
            outputs, targets, label_smoothing=settings.label_smoothing, reduction="sum"
        )

    def figure(draws: dims.Draws, found: dict[str, Any]) -> dict[str, Any]:
        predictive: Any = draws.predict(grid.to(draws.parameters.device))
        probability = predictive.log_probabilities[..., 1].exp()
        variance = probability.var(0, correction=0)
        ground = {"probability": rounded(probability.mean(0), 3), "variance": rounded(variance, 3)}
        return {"calibration": calibration(found["test"], split.test_targets), "map": ground}

    return Problem(
        name=f"banana_{settings.seed}",
        experiment="banana",
        dataset="banana",
        settings=asdict(settings),
        figure={
            "map": {"x": list(MAP_X), "y": list(MAP_Y), "side": settings.map_side},
            "points": rounded(shown, 4),
        },
        task=Task(
            lambda: perceptron((2, *settings.hidden, 2), nn.SiLU, settings.dropout),
            split.train_inputs,
            split.train_targets,
            summed_loss,
            settings.training,
        ),
        likelihood=dims.Categorical(settings.label_smoothing),
        evaluation=Evaluation(split.parts, metrics=scores_in_per_cent, figure=figure),
        draws=settings.draws,
        seed=settings.seed,
        frictions=(settings.friction,),
        max_time=settings.max_time,
        device=settings.device,
    )


def scores_in_per_cent(predictive: Any, targets: Tensor) -> Scores:
    """All metrics, and those in per cent that the paper's table has."""
    return {
        reading: {**found, **{f"{m}_percent": 100 * found[m] for m in ("accuracy", "ece", "mce")}}
        for reading, found in classification_scores(predictive, targets).items()
    }


def map_grid(side: int) -> Tensor:
    """The centres of a square grid well beyond the data, row by row from below, (side², 2)."""
    x, y = (torch.linspace(*ends, side, dtype=torch.float64) for ends in (MAP_X, MAP_Y))
    return torch.cartesian_prod(y, x).flip(-1)
