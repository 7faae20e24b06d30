"""Rows that the paper's tables do not have: other baselines, our defaults, the paper's solver.

They are computed from the same trained network as the rows of the paper, but in runs of their own,
kept in `<name>_more.json` beside `<name>.json`; tables and pages join the two.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from dims.baselines import deep_ensemble, swag
from dims.dynamics import Dynamics, dissipative, geodesic
from dims.experiments.runs import once, save_tensors
from dims.experiments.stopwatch import Stopwatch
from dims.experiments.training import Task
from dims.integrate import Path as Trajectories
from dims.integrate import integrate
from dims.posterior import Posterior
from dims.solvers.rows import Status
from dims.store.folder import write_text

__all__ = ["MoreSettings", "Problem", "row_names", "run_more", "run_rows"]

Outputs = Callable[[Tensor], Tensor]
Report = Callable[[str], None]

OUT_OF_TIME = "OUT_OF_TIME"  # the status of a draw that a limit cut off
# What the same draws by `rattle` need not keep once more.
DRAWN = ("curves", "mean", "std", "map", "calibration")


@dataclass(frozen=True)
class MoreSettings:
    """Every number of the rows that are ours alone.

    SWAG has the same number of draws as the other rows; its learning rate is the one of 0.003,
    0.01, 0.03 and 0.1 whose draws had the lowest training loss on glass, australian and banana
    together. The recipe is the paper's solver, dopri5 at rtol 1e-7 and atol 1e-6; it is dear, so it
    has fewer draws, seeds and a limit in seconds.
    """

    members: int = 5
    swag_epochs: int = 200
    swag_lr: float = 0.03
    swag_momentum: float = 0.9
    swag_batch_size: int = 64
    swag_rank: int = 20
    recipe_tolerance: float = 1e-7  # relative; dopri5's absolute one is ten times that
    recipe_draws: int = 5
    recipe_seeds: tuple[int, ...] = (0,)
    recipe_limit: float = 1800.0  # of each row

    def quick(self) -> MoreSettings:
        """A minute of it."""
        return replace(self, members=2, swag_epochs=20, recipe_draws=1, recipe_limit=20.0)


@dataclass(frozen=True)
class Problem:
    """One network of an experiment: how it is made, fitted, drawn from and scored."""

    name: str  # of the files of its run
    facts: dict[str, Any]  # by which tables know the run: experiment, dataset, seed, …
    task: Task
    posterior: Callable[[nn.Module], Posterior]
    score: Callable[[Posterior, Outputs], dict[str, Any]]
    draws: int
    seed: int
    rla_time: float
    frictions: tuple[float, ...]
    max_time: float
    compile: bool = False

    def member_seeds(self, count: int) -> list[int]:
        """Seeds that no network of the tables has, others for every seed of the problem."""
        return [1000 * (self.seed + 1) + number for number in range(count)]


def row_names(problem: Problem, settings: MoreSettings) -> list[str]:
    """The rows of a problem, by the names under which they are kept."""
    names = ["ensemble", "swag", "defaults"]
    if problem.seed in settings.recipe_seeds:
        names += ["recipe-rla", *(f"recipe-dims-{eta0:g}" for eta0 in problem.frictions)]
    return names


def run_more(
    problem: Problem, settings: MoreSettings, out: Path, report: Report | None = None
) -> dict[str, Any]:
    """The result of all rows, from the folder if it is there."""
    target, parts = _places(problem, out)
    names = row_names(problem, settings)
    if not target.exists():
        run_rows(problem, settings, out, names, report)
    files = [parts / f"{name}.row" for name in names]
    return once(target, lambda: _gathered(problem, settings, files))


def run_rows(
    problem: Problem,
    settings: MoreSettings,
    out: Path,
    names: Sequence[str],
    report: Report | None = None,
) -> bool:
    """Compute the named rows that are missing, and say whether all rows are there now.

    Each is kept as soon as it is done. Without names the network is trained and kept.
    """
    say = report or (lambda _: None)
    _, parts = _places(problem, out)
    parts.mkdir(parents=True, exist_ok=True)
    model = _network(problem, parts / "network.safetensors", say)
    missing = [name for name in names if not (parts / f"{name}.row").exists()]
    if missing:
        say("curvature and evidence")
        posterior = problem.posterior(model)
        network = {key: getattr(posterior, key) for key in ("prior_precision", "gradient_norm")}
    for name in missing:
        say(name)
        row = _row(name, problem, settings, model, posterior, parts)
        write_text(parts / f"{name}.row", json.dumps({"network": network, "row": row}))
        (parts / f"{name}.safetensors").unlink(missing_ok=True)
    return all((parts / f"{name}.row").exists() for name in row_names(problem, settings))


def _places(problem: Problem, out: Path) -> tuple[Path, Path]:
    """Where the result goes, and the folder of its rows, which no search for results finds."""
    return out / f"{problem.name}_more.json", out / f"{problem.name}_more.parts"


def _gathered(problem: Problem, settings: MoreSettings, files: list[Path]) -> dict[str, Any]:
    entries = [json.loads(file.read_text()) for file in files]
    return {
        **problem.facts,
        "seed": problem.seed,
        "draws": problem.draws,
        "more": asdict(settings),
        **entries[0]["network"],
        "rows": [entry["row"] for entry in entries],
    }


def _network(problem: Problem, path: Path, say: Report) -> nn.Module:
    """The network of the tables: trained again with its seed, or kept by an earlier call."""
    if path.exists():
        model = problem.task.fresh(problem.seed)
        model.load_state_dict(load_file(path))
        return model.eval()
    model = problem.task.train(problem.seed, lambda part: say(f"training {100 * part:.0f} %"))
    save_tensors(model.state_dict(), path)
    return model


def _row(
    name: str,
    problem: Problem,
    settings: MoreSettings,
    model: nn.Module,
    posterior: Posterior,
    parts: Path,
) -> dict[str, Any]:
    if name == "ensemble":
        return _ensemble(problem, settings, posterior)
    if name == "swag":
        return _swag(problem, settings, model, posterior)
    if name == "defaults":
        return _defaults(problem, posterior, parts / "defaults")
    watch = Stopwatch(parts / f"{name}.safetensors", settings.recipe_limit)
    if name == "recipe-rla":
        motion = Motion("RLA (recipe)", geodesic(), problem.rla_time, None)
    else:
        eta0 = float(name.removeprefix("recipe-dims-"))
        motion = Motion("DiMS (recipe)", dissipative(1.0, eta0), problem.max_time, eta0)
    return _recipe(motion, problem, settings, posterior, watch)


def _scores(problem: Problem, posterior: Posterior, thetas: Tensor) -> dict[str, Any]:
    return problem.score(posterior, lambda x: posterior.surface.predict(thetas, x))


def _ensemble(problem: Problem, settings: MoreSettings, posterior: Posterior) -> dict[str, Any]:
    """Networks trained as that of the tables, from other seeds; prior and noise are its own."""
    began = time.perf_counter()
    seeds = problem.member_seeds(settings.members)
    device = posterior.map_parameters.device
    members = [member.to(device) for member in problem.task.train_together(seeds)]
    surface = posterior.surface
    draws = deep_ensemble(
        members,
        (surface.data.inputs, surface.data.targets),
        surface.likelihood,
        prior_precision=surface.prior_precision,
    )
    return {
        "method": "Ensemble",
        "t1": None,
        "eta0": None,
        "draws": settings.members,
        "seconds": time.perf_counter() - began,
        "loss": draws.loss.tolist(),
        **_scores(problem, posterior, draws.parameters),
    }


def _swag(
    problem: Problem, settings: MoreSettings, model: nn.Module, posterior: Posterior
) -> dict[str, Any]:
    began = time.perf_counter()
    surface = posterior.surface
    draws = swag(
        model,
        (surface.data.inputs, surface.data.targets),
        surface.likelihood,
        problem.draws,
        epochs=settings.swag_epochs,
        lr=settings.swag_lr,
        momentum=settings.swag_momentum,
        batch_size=settings.swag_batch_size,
        rank=settings.swag_rank,
        prior_precision=surface.prior_precision,
        seed=problem.seed,
    )
    return {
        "method": "SWAG",
        "t1": None,
        "eta0": None,
        "seconds": time.perf_counter() - began,
        "loss": draws.loss.tolist(),
        **_scores(problem, posterior, draws.parameters),
    }


def _defaults(problem: Problem, posterior: Posterior, store: Path) -> dict[str, Any]:
    """`posterior.sample(S)`: whatever a user gets who asks for nothing; kept on the way."""
    began, resumed = time.perf_counter(), store.exists()
    compiled = problem.compile or posterior.map_parameters.is_cuda
    draws = posterior.sample(
        problem.draws,
        seed=problem.seed,
        compile=compiled,
        progress=False,
        store=store,
        # A compiled batch keeps nothing before its end.
        chunk_size=25 if compiled else problem.draws,
    )
    shutil.rmtree(store)
    return {
        "method": "DiMS defaults",
        "t1": draws.settings["max_time"],
        "eta0": draws.settings["friction"],
        # Of an earlier call they are not known.
        "seconds": None if resumed else time.perf_counter() - began,
        "energy_violation": draws.energy_violation.tolist(),
        "evaluations": draws.evaluations.tolist(),
        "loss": draws.loss.tolist(),
        "status": [status.name if status else None for status in draws.status],
        "gradient_norm": draws.gradient_norm.tolist(),
        "smallest_eigenvalue": draws.smallest_eigenvalue.tolist(),
        "verdict": list(draws.verdict or ()),
        **_scores(problem, posterior, draws.parameters),
    }


@dataclass(frozen=True)
class Motion:
    """What moves the particles of a row, and for how long."""

    method: str
    dynamics: Dynamics
    max_time: float
    eta0: float | None


def _recipe(
    motion: Motion,
    problem: Problem,
    settings: MoreSettings,
    posterior: Posterior,
    watch: Stopwatch,
) -> dict[str, Any]:
    """The first draws of a row by the paper's solver, and the same draws by ours.

    Within the limit as many as come to their end; the others say how far they came.
    """
    velocities = posterior.velocities(settings.recipe_draws, problem.seed)

    def follow(velocities: Tensor, **how: Any) -> Trajectories:
        return integrate(
            posterior.surface,
            posterior.map_parameters,
            velocities,
            dynamics=motion.dynamics,
            max_time=motion.max_time,
            **how,
        )

    path = follow(
        velocities,
        solver="dopri5",
        tolerance=settings.recipe_tolerance,
        stop=watch,
        checkpoint=watch,
    )
    seconds = watch.seconds
    done = torch.tensor([status is not Status.AT_REST for status in path.status])
    row = {
        "method": motion.method,
        "t1": motion.max_time,
        "eta0": motion.eta0,
        "asked": settings.recipe_draws,
        "draws": int(done.sum()),
        "limit": settings.recipe_limit,
        **_how_it_went(path, seconds),
    }
    row["status"] = [
        status.name if ended else OUT_OF_TIME
        for status, ended in zip(path.status, done.tolist(), strict=True)
    ]
    if not done.all():
        row["note"] = (
            f"not affordable: {row['draws']} of {row['asked']} draws in {seconds:.0f} seconds"
        )
    # Paired: the draws that the recipe finished, or all where it finished none.
    compared = done if done.any() else ~done
    began = time.perf_counter()
    ours = follow(velocities[compared])
    row["rattle"] = {
        "draws": int(compared.sum()),
        **_how_it_went(ours, time.perf_counter() - began),
    }
    if not done.any():
        return row
    scores = _scores(problem, posterior, ours.end)
    row["rattle"] |= {key: value for key, value in scores.items() if key not in DRAWN}
    return row | _scores(problem, posterior, path.end[done])


def _how_it_went(path: Trajectories, seconds: float) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "energy_violation": path.energy_violation.tolist(),
        "evaluations": path.evaluations.tolist(),
        "loss": path.loss[-1].tolist(),
        "status": [status.name for status in path.status],
        "reached": path.end_time.tolist(),
        # 1 for ever on a geodesic.
        "kinetic_ratio": (path.kinetic_energy[-1] / path.start_kinetic_energy).tolist(),
    }
