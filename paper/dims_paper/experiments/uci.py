"""`uci`: six classification sets, MAP, LA, LinLA, RLA and DiMS, test and training tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from dims.sampling.engine import Engine, resolve_engine
from dims_paper.datasets.splits import Split
from dims_paper.datasets.uci import UCI_NAMES, Protocol, load_uci
from dims_paper.experiments.classification import evaluate, methods, posterior_of, score_outputs
from dims_paper.experiments.more import run_more
from dims_paper.experiments.more_settings import MoreSettings, Problem
from dims_paper.experiments.runs import run_all
from dims_paper.experiments.training import Task, Training, mlp

__all__ = [
    "METRIC_NAMES",
    "PAPER_PROTOCOL",
    "UciSettings",
    "paper_runs",
    "problem_of",
    "quick",
    "run_one",
    "run_uci",
    "run_uci_more",
    "task_of",
]

# The published file of waveform holds 1 000 of its 5 000 rows; the paper's numbers are of all.
PAPER_PROTOCOL = {"waveform": "clean"}
METRIC_NAMES = {"brier": "brier_sum"}  # the UCI tables sum the Brier score over classes


@dataclass(frozen=True)
class UciSettings:
    """Every number of the paper's appendix. "3-layer" is read as three hidden layers."""

    datasets: tuple[str, ...] = UCI_NAMES
    protocol: Protocol = "bnn-predictions"
    hidden: tuple[int, ...] = (16, 16, 16)
    dropout: float = 0.5
    training: Training = field(default_factory=lambda: Training(epochs=10_000, batch_size=64))
    draws: int = 30
    seeds: int = 5
    frictions: tuple[float, ...] = (0.1, 0.5)
    max_time: float = 50.0


def quick(settings: UciSettings) -> UciSettings:
    """A minute of it: one seed, one friction, fewer epochs and draws."""
    return replace(
        settings,
        training=replace(settings.training, epochs=300),
        draws=5,
        seeds=1,
        frictions=(0.5,),
    )


def run_uci(
    settings: UciSettings,
    out: Path,
    report: Callable[[str], None] | None = None,
    engine: str | Engine | None = None,
) -> list[dict[str, Any]]:
    """All sets and seeds, or those that are not in the folder yet; on a cluster without reports."""
    runs = {
        out / f"{dataset}_{seed}.json": partial(
            run_one, dataset, seed, settings, report if engine is None else None
        )
        for dataset in settings.datasets
        for seed in range(settings.seeds)
    }
    return run_all(runs, resolve_engine(engine))


def run_one(
    dataset: str, seed: int, settings: UciSettings, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Train on one split and evaluate all methods."""

    def say(what: str) -> None:
        if report is not None:
            report(f"{dataset}, seed {seed}: {what}")

    split = load_uci(dataset, seed, settings.protocol)
    model = task_of(split, settings).train(seed, lambda part: say(f"training {100 * part:.0f} %"))
    rows = methods(settings.frictions, settings.max_time)
    result = evaluate(model, split, rows, draws=settings.draws, seed=seed, report=say)
    return {"experiment": "uci", "dataset": dataset, "protocol": settings.protocol, **result}


def paper_runs(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of runs by several protocols those that the paper's tables are to be compared with."""
    return [
        run
        for run in runs
        if run["protocol"] == PAPER_PROTOCOL.get(run["dataset"], "bnn-predictions")
    ]


def task_of(split: Split, settings: UciSettings) -> Task:
    """The network of a set and how it is trained."""
    widths = (split.train_inputs.shape[1], *settings.hidden, split.classes)
    return Task(
        lambda: mlp(widths, nn.SiLU, settings.dropout),
        split.train_inputs,
        split.train_targets,
        nn.functional.cross_entropy,
        settings.training,
    )


def problem_of(dataset: str, seed: int, settings: UciSettings) -> Problem:
    """The network of one split, for the rows that the paper has not."""
    split = load_uci(dataset, seed, settings.protocol)
    return Problem(
        name=f"{dataset}_{seed}",
        facts={"experiment": "uci", "dataset": dataset, "protocol": settings.protocol},
        task=task_of(split, settings),
        posterior=lambda model: posterior_of(model, split),
        score=lambda _, outputs: score_outputs(outputs, split, None),
        draws=settings.draws,
        seed=seed,
        rla_time=1.0,
        frictions=settings.frictions,
        max_time=settings.max_time,
    )


def run_uci_more(
    settings: UciSettings,
    more: MoreSettings,
    out: Path,
    report: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """The rows of all sets and seeds that the paper has not, those in the folder as they are."""
    runs = []
    for dataset in settings.datasets:
        for seed in range(settings.seeds):

            def say(what: str, name: str = f"{dataset}, seed {seed}") -> None:
                if report is not None:
                    report(f"{name}: {what}")

            runs.append(run_more(problem_of(dataset, seed, settings), more, out, say))
    return runs
