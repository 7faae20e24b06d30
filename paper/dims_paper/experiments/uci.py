"""`uci`: six classification sets, MAP, LA, LinLA, RLA and DiMS, test and training tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import nn

import dims
from dims.model.training import Training, perceptron
from dims.sampling.engine import Engine, resolve_engine
from dims_paper.cache import kept_runs
from dims_paper.datasets.uci import UCI_NAMES, Protocol, load_uci
from dims_paper.experiments.additional import AdditionalSettings
from dims_paper.experiments.problem import Problem, Report, run_problem
from dims_paper.schema import Run
from dims_paper.scoring import Evaluation, calibration, classification_scores
from dims_paper.training import Task

# The published file of waveform holds 1 000 of its 5 000 rows; the paper's numbers are of all.
PAPER_PROTOCOL = {"waveform": "clean"}
METRIC_NAMES = {"brier": "brier_sum"}  # the UCI tables sum the Brier score over classes
ADDITIONAL = AdditionalSettings()
TRAINING = Training(epochs=10_000, batch_size=64)


@dataclass(frozen=True)
class UciSettings:
    """Every number of the paper's appendix. "3-layer" is read as three hidden layers."""

    datasets: tuple[str, ...] = UCI_NAMES
    protocol: Protocol = "bnn-predictions"
    hidden: tuple[int, ...] = (16, 16, 16)
    dropout: float = 0.5
    training: Training = TRAINING
    draws: int = 30
    seeds: int = 5
    frictions: tuple[float, ...] = (0.1, 0.5)
    max_time: float = 50.0


def quick(settings: UciSettings) -> UciSettings:
    """A minute of it: one seed, one friction, fewer epochs and draws."""
    training = replace(settings.training, epochs=300)
    return replace(settings, training=training, draws=5, seeds=1, frictions=(0.5,))


def problem_of(dataset: str, seed: int, settings: UciSettings) -> Problem:
    """The network of one split of a set."""
    split = load_uci(dataset, seed, settings.protocol)
    widths = (split.train_inputs.shape[1], *settings.hidden, split.classes)
    return Problem(
        name=f"{dataset}_{seed}",
        experiment="uci",
        dataset=dataset,
        facts={"protocol": settings.protocol},
        task=Task(
            lambda: perceptron(widths, nn.SiLU, settings.dropout),
            split.train_inputs,
            split.train_targets,
            nn.functional.cross_entropy,
            settings.training,
        ),
        likelihood=dims.Categorical(),
        evaluation=Evaluation(
            split.parts,
            metrics=classification_scores,
            figure=lambda _, found: {"calibration": calibration(found["test"], split.test_targets)},
        ),
        draws=settings.draws,
        seed=seed,
        frictions=settings.frictions,
        max_time=settings.max_time,
    )


def run_uci(
    settings: UciSettings,
    out: Path,
    report: Report | None = None,
    engine: str | Engine | None = None,
) -> list[Run]:
    """All sets and seeds, or those that are not in the folder yet; on a cluster without reports."""
    runs = {
        out / f"{dataset}_{seed}.json": partial(
            run_one, dataset, seed, settings, report if engine is None else None
        )
        for dataset, seed in _all(settings)
    }
    return kept_runs(runs, resolve_engine(engine))


def run_one(dataset: str, seed: int, settings: UciSettings, report: Report | None = None) -> Run:
    """Train on one split and evaluate all methods."""
    problem = problem_of(dataset, seed, settings)
    return run_problem(problem, problem.prefixed(report))


def problems_of(settings: UciSettings) -> list[Problem]:
    """The networks of all sets and seeds."""
    return [problem_of(dataset, seed, settings) for dataset, seed in _all(settings)]


def paper_runs(runs: Sequence[Run]) -> list[Run]:
    """Of runs by several protocols those that the paper's tables are to be compared with."""
    return [
        run
        for run in runs
        if run.facts["protocol"] == PAPER_PROTOCOL.get(str(run.dataset), "bnn-predictions")
    ]


def _all(settings: UciSettings) -> list[tuple[str, int]]:
    return [(dataset, seed) for dataset in settings.datasets for seed in range(settings.seeds)]
