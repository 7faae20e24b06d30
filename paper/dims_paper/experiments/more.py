"""Rows that the paper's tables do not have: other baselines, our defaults, the paper's solver.

They are computed from the same trained network as the rows of the paper, but in runs of their own,
kept in `<name>_more.json` beside `<name>.json`; tables and pages join the two.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from dims.baselines import deep_ensemble, swag
from dims.mechanics.dynamics import dissipative, geodesic
from dims.sampling.files import write_text_atomically
from dims.sampling.posterior import Posterior
from dims_paper.experiments.more_recipe import Motion, recipe_row
from dims_paper.experiments.more_settings import MoreSettings, Problem
from dims_paper.experiments.runs import kept_network, once
from dims_paper.experiments.stopwatch import Stopwatch

__all__ = ["row_names", "run_more", "run_rows"]

Report = Callable[[str], None]


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
        write_text_atomically(parts / f"{name}.row", json.dumps({"network": network, "row": row}))
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
    task, seed = problem.task, problem.seed
    return kept_network(
        path,
        lambda: task.fresh(seed),
        lambda: task.train(seed, lambda part: say(f"training {100 * part:.0f} %")),
    )


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
    return recipe_row(motion, problem, settings, posterior, watch)


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
        **problem.scores(posterior, draws.parameters),
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
        learning_rate=settings.swag_lr,
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
        **problem.scores(posterior, draws.parameters),
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
        **problem.scores(posterior, draws.parameters),
    }
