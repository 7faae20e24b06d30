"""Figure 2 and `dims demo`: seven points of a sine, and the functions that RLA and DiMS draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims import Trajectories
from dims.commands.pages.trajectories import on_a_plane, rounded
from dims.mechanics.batch import Progress
from dims.model.training import Training, perceptron
from dims_paper.experiments.problem import Report
from dims_paper.schema import Row, Run
from dims_paper.scoring import function_fields, movie, points
from dims_paper.training import Task

LEVELS = (0.05, 0.5, 0.95)  # quantiles over draws of the loss along the trajectories


@dataclass(frozen=True)
class DemoSettings:
    """Everything that defines the demonstration."""

    points: int = 7
    width: int = 16
    training_steps: int = 3_000
    noise_std: float = 0.1
    prior_precision: float = 0.02
    draws: int = 30
    friction: float = 0.3
    max_time: float = 10.0
    saves: int = 60
    seed: int = 0


@dataclass(frozen=True)
class DemoResult:
    """Curves and energies, ready to be drawn and tabled."""

    posterior: dims.Posterior
    inputs: Tensor  # (N,) training inputs and targets
    targets: Tensor
    grid: Tensor
    rla: Trajectories
    dims: Trajectories
    rla_curves: Tensor  # (S, grid)
    dims_curves: Tensor
    settled: Tensor  # (S, K)


def sine_task(settings: DemoSettings) -> Task:
    """A small smooth network, and points of a sine with a gap in the middle."""
    left = torch.linspace(-2.6, -1.1, math.ceil(settings.points / 2), dtype=torch.float64)
    right = torch.linspace(1.0, 2.4, settings.points // 2, dtype=torch.float64)
    inputs = torch.cat([left, right]).unsqueeze(-1)
    return Task(
        lambda: perceptron((1, settings.width, settings.width, 1), nn.Tanh),
        inputs,
        torch.sin(2 * inputs),
        lambda outputs, targets: (outputs - targets).square().sum(),
        Training(settings.training_steps, learning_rate=1e-2, weight_decay=0.0, cosine=True),
    )


def run_demo(
    settings: DemoSettings, report: Callable[[str, Progress], None] | None = None
) -> DemoResult:
    """Train, fit, and follow the same velocities by RLA and by DiMS."""
    task = sine_task(settings)
    inputs, targets = task.inputs, task.targets
    posterior = dims.fit(
        task.train(settings.seed),
        (inputs, targets),
        "regression",
        prior_precision=settings.prior_precision,
        noise_std=settings.noise_std,
        tune=True,
    )
    surface = posterior.surface
    velocities = posterior.perturbations(settings.draws, settings.seed)

    def follow(name: str, max_time: float, dynamics: dims.Dynamics) -> dims.Trajectories:
        times = torch.linspace(0, max_time, settings.saves + 1)
        return dims.integrate(
            surface,
            posterior.map_parameters,
            velocities,
            dynamics=dynamics,
            max_time=max_time,
            save_at=times,
            progress=None if report is None else lambda now: report(name, now),
        )

    rla = follow("RLA", 1.0, dims.geodesic())
    moved = follow("DiMS", settings.max_time, dims.dissipative(1.0, settings.friction))
    settled = dims.settle(surface, moved.end, method="stiff").positions
    grid = torch.linspace(-3.4, 3.2, 200, dtype=torch.float64).unsqueeze(-1)
    return DemoResult(
        posterior=posterior,
        inputs=inputs.squeeze(-1),
        targets=targets.squeeze(-1),
        grid=grid.squeeze(-1),
        rla=rla,
        dims=moved,
        rla_curves=surface.predict(rla.end, grid).squeeze(-1),
        dims_curves=surface.predict(settled, grid).squeeze(-1),
        settled=settled,
    )


def demo_table(result: DemoResult) -> list[tuple[str, str, str]]:
    """Rows of (what, RLA, DiMS) for the terminal."""
    surface, inputs = result.posterior.surface, result.inputs.unsqueeze(-1)
    paths = (result.rla, result.dims)
    ends = (result.rla.end, result.settled)
    at_map = float(surface.value(result.posterior.map_parameters[None]))
    limit = dims.theorem_bounds(result.dims).sharp_arc_length_limit
    gap = (result.grid > -0.8) & (result.grid < 0.7)

    def row(name: str, form: str, values: Iterable[Any]) -> tuple[str, str, str]:
        rla, moved = (form.format(float(value)) for value in values)
        return name, rla, moved

    errors = [surface.predict(t, inputs).squeeze(-1) - result.targets for t in ends]
    curves = (result.rla_curves, result.dims_curves)
    losses = (result.rla.loss[-1], surface.value(result.settled))
    above = [float(loss.mean()) - at_map for loss in losses]
    finished = [f"{sum(s.ok for s in p.status)} of {len(p.status)}" for p in paths]
    return [
        row("draws", "{:.0f}", [len(path.status) for path in paths]),
        row("mean |error| on the training points", "{:.4f}", [e.abs().mean() for e in errors]),
        row("spread of functions in the gap", "{:.3f}", [c[:, gap].std(0).mean() for c in curves]),
        row(f"loss above that of θ* ({at_map:.2f})", "{:.3f}", above),
        row("energy violation (worst draw)", "{:.1e}", [p.energy_violation.max() for p in paths]),
        row("arc length (mean)", "{:.2f}", [p.arc_length.mean() for p in paths]),
        ("  least that theory allows", "-", f"{float(limit.mean()):.2f}"),
        row("gradients a draw (mean)", "{:.0f}", [p.evaluations.double().mean() for p in paths]),
        ("ended as asked", finished[0], finished[1]),
    ]


@dataclass(frozen=True)
class SinusoidSettings(DemoSettings):
    """N = 7 is the paper's; the network, its noise and prior, η₀ and t₁ are ours."""

    followed: int = 8  # draws whose functions and positions are kept along the trajectories

    @property
    def file(self) -> str:
        return f"sinusoid_{self.seed}"

    def quick(self) -> SinusoidSettings:
        return replace(self, draws=8, max_time=4.0, saves=20, followed=4)

    def run(self, say: Report) -> Run:
        """The demonstration, with its functions and trajectories kept."""

        def progress(name: str, now: Progress) -> None:
            say(f"{name}: {now.done}/{now.rows} draws done, t = {now.mean_time:.2f}")

        say("training")
        found = run_demo(self, progress)
        run = sinusoid_run(found, self)
        paths = [("RLA", found.rla), ("DiMS", found.dims)]
        surface, coarse = found.posterior.surface, found.grid[::3].unsqueeze(-1)
        motion = {
            "movie_grid": rounded(coarse.squeeze(-1)),
            "movies": [movie(surface, path, coarse, name, self.followed) for name, path in paths],
            **on_a_plane(surface, found.posterior.map_parameters, paths, self.followed),
        }
        return replace(run, figure=run.figure | motion)


def sinusoid_run(found: DemoResult, settings: DemoSettings) -> Run:
    """What the figure of the demonstration shows."""
    return Run(
        experiment="sinusoid",
        seed=settings.seed,
        draws=settings.draws,
        settings=asdict(settings),
        facts={"noise_std": settings.noise_std},
        rows=[
            Row(method="RLA", figure=function_fields(found.rla_curves)),
            Row(method="DiMS", figure=function_fields(found.dims_curves)),
        ],
        figure={
            "grid": rounded(found.grid),
            "points": {"train": points(found.inputs, found.targets)},
            "losses": _losses(found),
        },
    )


def _losses(found: DemoResult) -> list[dict[str, Any]]:
    levels = torch.tensor(LEVELS, dtype=torch.float64)
    return [
        {
            "method": name,
            "times": rounded(path.times),
            "quantiles": rounded(path.loss.quantile(levels, dim=1)),
        }
        for name, path in (("RLA", found.rla), ("DiMS", found.dims))
    ]
