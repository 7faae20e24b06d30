"""`snelson`: regression with a gap in the data; what each method says in the gap and outside it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dims.commands.pages.trajectories import on_a_plane, rounded, save_times
from dims.errors import NotAMinimumWarning
from dims.mechanics.batch import Progress
from dims.mechanics.dynamics import dissipative, geodesic
from dims.mechanics.integrate import integrate
from dims.prediction.metrics import regression_metrics
from dims.sampling.fit import fit
from dims.sampling.posterior import Posterior
from dims.sampling.settle import settle
from dims_paper.datasets.snelson import Snelson, load_snelson
from dims_paper.experiments.functions import function_fields, movie
from dims_paper.experiments.functions import points as pairs
from dims_paper.experiments.more_settings import MoreSettings, Problem
from dims_paper.experiments.runs import once, percent
from dims_paper.experiments.training import Task, Training, mlp

__all__ = ["MORE", "SnelsonSettings", "problem_of", "quick", "random_start", "run_snelson"]

# A steeper loss per point: the learning rate of lowest training loss out of 3e-4, 1e-3, 3e-3, 1e-2.
MORE = MoreSettings(recipe_draws=3, swag_lr=1e-3)

Points = dict[str, tuple[Tensor, Tensor]]

GRID = (-1.0, 7.0, 161)  # inputs at which functions are kept for the figure


@dataclass(frozen=True)
class SnelsonSettings:
    """Every number of the paper's appendix; three hidden layers, as in its published example."""

    hidden: tuple[int, ...] = (16, 16, 16)
    dropout: float = 0.2
    training: Training = field(default_factory=lambda: Training(epochs=50_000))
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


def run_snelson(
    settings: SnelsonSettings, out: Path, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The run of one seed, from the folder if it is there."""
    return once(out / f"{_name(settings)}.json", lambda: run_one(settings, report))


def _name(settings: SnelsonSettings) -> str:
    start = "" if settings.trained else "_random"
    return f"snelson_{settings.curvature_kind}{start}_{settings.seed}"


def run_one(
    settings: SnelsonSettings, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Train outside the gap, tune by the evidence, draw by every method."""
    say = report or (lambda _: None)
    data = load_snelson(gap=settings.gap)
    task = task_of(data, settings)
    if settings.trained:
        model = task.train(settings.seed, lambda part: say(f"training {100 * part:.0f} %"))
    else:
        model = task.fresh(settings.seed)
    say("curvature and evidence")
    posterior = posterior_of(model, data, settings)
    points = points_of(data)
    result: dict[str, Any] = {
        "experiment": "snelson",
        "dataset": "snelson",
        "seed": settings.seed,
        "draws": settings.draws,
        "settings": asdict(settings),
        "curvature_kind": settings.curvature_kind,
        "prior_precision": posterior.prior_precision,
        "noise_std": posterior.noise_std,
        "gradient_norm": posterior.gradient_norm,
        "grid": rounded(torch.linspace(*GRID, dtype=torch.float64)),
        "points": {name: pairs(x, y) for name, (x, y) in points.items()},
        "rows": [],
    }
    for name in ("map", "la", "linla", "rla", "dims"):
        say(name)
        result["rows"] += _score(name, posterior, settings, points, percent(say, name))
    if settings.followed > 0:
        say("trajectories")
        result |= _follow(posterior, settings)
    return result


def task_of(data: Snelson, settings: SnelsonSettings) -> Task:
    """The network and how it is trained, outside the gap."""
    return Task(
        lambda: mlp((1, *settings.hidden, 1), nn.GELU, settings.dropout),
        data.train_inputs,
        data.train_targets,
        lambda outputs, targets: (outputs - targets).square().sum(),
        settings.training,
    )


def problem_of(settings: SnelsonSettings) -> Problem:
    """The network, for the rows that the paper has not."""
    if not settings.trained:
        raise ValueError("trained: an untrained network has no further rows; leave it at True")
    data = load_snelson(gap=settings.gap)
    points = points_of(data)
    return Problem(
        name=_name(settings),
        facts={
            "experiment": "snelson",
            "dataset": "snelson",
            "curvature_kind": settings.curvature_kind,
        },
        task=task_of(data, settings),
        posterior=lambda model: posterior_of(model, data, settings),
        score=lambda posterior, outputs: score_outputs(outputs, posterior, points),
        draws=settings.draws,
        seed=settings.seed,
        rla_time=settings.rla_time,
        frictions=(settings.friction,),
        max_time=settings.max_time,
        compile=settings.compile,
    )


def points_of(data: Snelson) -> Points:
    """Where methods are scored."""
    return {
        "train": (data.train_inputs, data.train_targets),
        "gap": (data.gap_inputs, data.gap_targets),
    }


def posterior_of(model: nn.Module, data: Snelson, settings: SnelsonSettings) -> Posterior:
    """The posterior of a network where its training with dropout ended, which is no minimum of
    the loss without; the published runs start there all the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotAMinimumWarning)
        return fit(
            model.to(settings.device).eval(),
            (data.train_inputs.to(settings.device), data.train_targets.to(settings.device)),
            "regression",
            curvature_kind=settings.curvature_kind,
        )


def score_outputs(
    network: Callable[[Tensor], Tensor], posterior: Posterior, points: Points
) -> dict[str, Any]:
    """All scores of draws whose networks give these outputs (S, N, 1), and their functions."""

    def outputs(x: Tensor) -> Tensor:
        return network(x.to(posterior.map_parameters.device)).cpu()

    noise = posterior.noise_std
    assert noise is not None
    grid = torch.linspace(*GRID, dtype=torch.float64).unsqueeze(-1)
    inside = torch.linspace(1.6, 2.9, 60, dtype=torch.float64).unsqueeze(-1)
    outside = torch.linspace(3.2, 5.8, 60, dtype=torch.float64).unsqueeze(-1)
    return {
        **{k: dict(regression_metrics(outputs(x), y, noise)) for k, (x, y) in points.items()},
        "spread_gap": float(_spread(outputs(inside))),
        "spread_data": float(_spread(outputs(outside))),
        **function_fields(outputs(grid).squeeze(-1)),
    }


def _follow(posterior: Posterior, settings: SnelsonSettings) -> dict[str, Any]:
    """The first draws of RLA and DiMS once more, seen on their way."""
    velocities = posterior.perturbations(settings.followed, settings.seed)
    paths = [
        (
            name,
            integrate(
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
            ("RLA", settings.rla_time, geodesic()),
            ("DiMS", settings.max_time, dissipative(1.0, settings.friction)),
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


def _score(
    name: str,
    posterior: Posterior,
    settings: SnelsonSettings,
    points: Points,
    progress: Callable[[Progress], None],
) -> list[dict[str, Any]]:
    surface = posterior.surface
    began = time.perf_counter()

    def entry(label: str, network: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        seconds = time.perf_counter() - began
        scores = score_outputs(network, posterior, points)
        return {"method": label, "seconds": seconds, **scores}

    if name == "map":
        theta = posterior.map_parameters.unsqueeze(0)
        return [entry("MAP", lambda x: surface.predict(theta, x))]
    how: dict[str, Any] = {"seed": settings.seed, "progress": progress}
    if name in ("rla", "dims"):
        how |= {"precondition": False, "compile": settings.compile}
    if name == "rla":
        how["max_time"] = settings.rla_time
    if name == "dims":
        how |= {
            "friction": settings.friction,
            "max_time": settings.max_time,
            "settle": "none",
            "certify": False,
        }
    draws = posterior.sample(settings.draws, method=name, **how)
    label = {"la": "LA", "linla": "LinLA", "rla": "RLA", "dims": "DiMS"}[name]
    rows = [entry(label, lambda x: draws.predict(x).samples)]
    if name in ("rla", "dims"):
        rows[0]["energy_violation"] = float(draws.energy_violation.max())
        rows[0]["evaluations"] = float(draws.evaluations.double().mean())
    if name == "dims":
        rested = settle(surface, draws.parameters).positions
        rows.append(entry("DiMS settled", lambda x: surface.predict(rested, x)))
    return rows


def _spread(outputs: Tensor) -> Tensor:
    return outputs.std(0).mean() if len(outputs) > 1 else outputs.new_zeros(())
