"""`snelson`: regression with a gap in the data; what each method says in the gap and outside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.commands.pages.trajectories import on_a_plane, rounded, save_times
from dims.model.training import Training, perceptron
from dims_paper.cache import kept_run
from dims_paper.datasets.snelson import load_snelson
from dims_paper.experiments.additional import AdditionalSettings
from dims_paper.experiments.problem import Problem, Report, run_problem
from dims_paper.schema import Run
from dims_paper.scoring import Evaluation, function_fields, movie, points
from dims_paper.training import Task

# A steeper loss per point: the learning rate of lowest training loss out of 3e-4, 1e-3, 3e-3, 1e-2.
ADDITIONAL = AdditionalSettings(reference_draws=3, swag_lr=1e-3)

GRID = (-1.0, 7.0, 161)  # inputs at which functions are kept for the figure
GAP, DATA = (1.6, 2.9, 60), (3.2, 5.8, 60)  # inputs over which the spread is averaged
TRAINING = Training(epochs=50_000)


@dataclass(frozen=True)
class SnelsonSettings:
    """Every number of the paper's appendix; three hidden layers, as in its published example."""

    hidden: tuple[int, ...] = (16, 16, 16)
    dropout: float = 0.2
    training: Training = TRAINING
    curvature_kind: str = "ggn"  # the text says Hessian, the published example GGN
    draws: int = 100
    friction: float = 0.1
    max_time: float = 50.0
    rla_time: float = 1.0
    gap: tuple[float, float] = (1.5, 3.0)
    followed: int = 6  # draws whose trajectories and functions are kept along the way
    frames: int = 40
    seed: int = 0
    compile: bool = True
    device: str = "cpu"  # where draws are made; the network is trained on the CPU
    trained: bool = True  # or sampled from where the weights were initialised

    @property
    def name(self) -> str:
        start = "" if self.trained else "_random"
        return f"snelson_{self.curvature_kind}{start}_{self.seed}"


def random_start(settings: SnelsonSettings) -> SnelsonSettings:
    """The paper's second figure: from untrained weights, with more friction."""
    return replace(settings, trained=False, friction=1.0)


def quick(settings: SnelsonSettings) -> SnelsonSettings:
    """A minute of it: fewer epochs and draws, more friction, shorter times (t₁ = 0.1 for RLA)."""
    return replace(
        settings,
        training=replace(settings.training, epochs=3_000),
        draws=5,
        friction=1.0,
        max_time=5.0,
        rla_time=0.1,
        followed=3,
        frames=10,
        compile=False,
    )


def run_snelson(settings: SnelsonSettings, out: Path, report: Report | None = None) -> Run:
    """The run of one seed, from the folder if it is there."""

    def make() -> Run:
        problem = problem_of(settings)
        return run_problem(problem, report, lambda posterior: _follow(posterior, settings))

    return kept_run(out / f"{settings.name}.json", make)


def problem_of(settings: SnelsonSettings) -> Problem:
    """The network outside the gap, scored there and in the gap."""
    data = load_snelson(gap=settings.gap)
    parts = {
        "train": (data.train_inputs, data.train_targets),
        "gap": (data.gap_inputs, data.gap_targets),
    }
    return Problem(
        name=settings.name,
        experiment="snelson",
        dataset="snelson",
        facts={"curvature_kind": settings.curvature_kind},
        settings=asdict(settings),
        figure={
            "grid": rounded(torch.linspace(*GRID, dtype=torch.float64)),
            "points": {name: points(x, y) for name, (x, y) in parts.items()},
        },
        task=Task(
            lambda: perceptron((1, *settings.hidden, 1), nn.GELU, settings.dropout),
            data.train_inputs,
            data.train_targets,
            lambda outputs, targets: (outputs - targets).square().sum(),
            settings.training,
        ),
        likelihood="regression",
        evaluation=Evaluation(
            parts,
            numbers=lambda draws, _: {
                "spread_gap": _spread(_outputs(draws, GAP)),
                "spread_data": _spread(_outputs(draws, DATA)),
            },
            figure=lambda draws, _: function_fields(_outputs(draws, GRID).squeeze(-1)),
        ),
        draws=settings.draws,
        seed=settings.seed,
        rla_time=settings.rla_time,
        frictions=(settings.friction,),
        max_time=settings.max_time,
        curvature_kind=settings.curvature_kind,
        trained=settings.trained,
        compile=settings.compile,
        device=settings.device,
    )


def _outputs(draws: dims.Draws, grid: tuple[float, float, int]) -> Tensor:
    """The functions of all draws on a grid, (S, grid, 1)."""
    inputs = torch.linspace(*grid, dtype=torch.float64).unsqueeze(-1)
    return draws.predict(inputs.to(draws.parameters.device)).samples


def _spread(outputs: Tensor) -> float:
    return float(outputs.std(0).mean()) if len(outputs) > 1 else 0.0


def _follow(posterior: dims.Posterior, settings: SnelsonSettings) -> dict[str, Any]:
    """The first draws of RLA and DiMS once more, seen along their trajectories."""
    if settings.followed == 0:
        return {}
    velocities = posterior.perturbations(settings.followed, settings.seed)
    paths = [
        (
            name,
            dims.integrate(
                posterior.surface,
                posterior.map_parameters,
                velocities,
                dynamics=dynamics,
                max_time=time,
                save_at=save_times(time, settings.frames, dense_early=True),
                compile=settings.compile,
            ),
        )
        for name, time, dynamics in (
            ("RLA", settings.rla_time, dims.geodesic()),
            ("DiMS", settings.max_time, dims.dissipative(1.0, settings.friction)),
        )
    ]
    surface = posterior.surface
    grid = torch.linspace(GRID[0], GRID[1], 81, dtype=torch.float64).unsqueeze(-1)
    grid = grid.to(settings.device)
    return {
        "movie_grid": rounded(grid.squeeze(-1)),
        "movies": [movie(surface, path, grid, name, settings.followed) for name, path in paths],
        **on_a_plane(surface, posterior.map_parameters, paths, settings.followed),
    }
