"""Additional baselines, which the paper's tables do not have.

Deep ensemble, SWAG, our defaults, and the reference solver. They are computed from the same trained
network as the rows of the paper, but in runs of their own, kept in `<name>_additional.json` beside
`<name>.json`; tables and pages join the two.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

from torch import nn

import dims
from dims_paper.cache import kept_network, kept_rows, kept_run, read_json
from dims_paper.experiments.problem import Problem, Report, training_report
from dims_paper.experiments.reference import Motion, Stopwatch, reference_row
from dims_paper.schema import REFERENCE, Row, Run
from dims_paper.scoring import diagnostics_of


@dataclass(frozen=True)
class AdditionalSettings:
    """Every number of the additional baselines.

    SWAG has the same number of draws as the other rows; its learning rate is the one of 0.003,
    0.01, 0.03 and 0.1 whose draws had the lowest training loss on glass, australian and banana
    together. The reference solver is dopri5 at the published tolerances, rtol 1e-7 and atol 1e-6;
    it is expensive, so it has fewer draws, seeds and a limit in seconds.
    """

    members: int = 5
    swag_epochs: int = 200
    swag_lr: float = 0.03
    swag_momentum: float = 0.9
    swag_batch_size: int = 64
    swag_rank: int = 20
    reference_tolerance: float = 1e-7  # relative; dopri5's absolute one is ten times that
    reference_draws: int = 5
    reference_seeds: tuple[int, ...] = (0,)
    reference_limit: float = 1800.0  # of each row
    resting_time: float = 50.0  # of the draws that are brought to rest

    def quick(self) -> AdditionalSettings:
        """A minute of it."""
        few = replace(self, members=2, swag_epochs=20, reference_draws=1, reference_limit=20.0)
        return replace(few, resting_time=3.0)


def row_names(problem: Problem, settings: AdditionalSettings) -> list[str]:
    """The rows of a problem, by the names under which they are kept."""
    names = ["ensemble", "swag", "defaults"]
    if problem.seed in settings.reference_seeds:
        names += ["reference-rla", *(f"reference-dims-{eta0:g}" for eta0 in problem.frictions)]
    return names


def run_additional(
    problem: Problem, settings: AdditionalSettings, out: Path, report: Report | None = None
) -> Run:
    """The result of all rows, from the folder if it is there."""
    if not problem.trained:
        raise ValueError("trained: an untrained network has no additional baselines; leave it True")
    names = row_names(problem, settings)

    def make() -> Run:
        run_rows(problem, settings, out, names, report)
        entries = [read_json(_folder(problem, out) / f"{name}.row") for name in names]
        return Run(
            experiment=problem.experiment,
            dataset=problem.dataset,
            seed=problem.seed,
            draws=problem.draws,
            additional=asdict(settings),
            facts={**problem.facts, **entries[0]["network"]},
            rows=[Row.from_json(entry["row"]) for entry in entries],
        )

    return kept_run(out / f"{problem.name}_additional.json", make)


def run_rows(
    problem: Problem,
    settings: AdditionalSettings,
    out: Path,
    names: Sequence[str],
    report: Report | None = None,
) -> bool:
    """Compute the named rows that are missing, and say whether all rows are there now.

    Each is kept as soon as it is done. Without names the network is trained and kept.
    """
    say = report or (lambda _: None)
    parts = _folder(problem, out)
    task, seed = problem.task, problem.seed
    model = kept_network(
        parts / "network.safetensors",
        lambda: task.fresh(seed),
        lambda: task.train(seed, training_report(say)),
    )

    @cache
    def posterior() -> dims.Posterior:
        say("curvature and evidence")
        return problem.posterior(model)

    def make(name: str) -> Row:
        say(name)
        return _maker(name, problem, settings, parts, model)(posterior())

    def network() -> dict[str, float]:
        return {k: getattr(posterior(), k) for k in ("prior_precision", "gradient_norm")}

    kept_rows(parts, {name: partial(make, name) for name in names}, network)
    return all((parts / f"{name}.row").exists() for name in row_names(problem, settings))


def _folder(problem: Problem, out: Path) -> Path:
    """Of single rows; no search for results looks into it."""
    return out / f"{problem.name}_additional.parts"


def _maker(
    name: str, problem: Problem, settings: AdditionalSettings, parts: Path, model: nn.Module
) -> Callable[[dims.Posterior], Row]:
    """What computes the row of a name."""
    if name == "ensemble":
        return partial(_ensemble, problem, settings)
    if name == "swag":
        return partial(_swag, problem, settings, model)
    if name == "defaults":
        return partial(_defaults, problem, settings, parts / "defaults")
    watch = Stopwatch(parts / f"{name}.safetensors", settings.reference_limit)
    if name == "reference-rla":
        motion = Motion(f"RLA {REFERENCE}", dims.geodesic(), problem.rla_time, None)
    else:
        eta0 = float(name.removeprefix("reference-dims-"))
        motion = Motion(f"DiMS {REFERENCE}", dims.dissipative(1.0, eta0), problem.max_time, eta0)
    draws, tolerance = settings.reference_draws, settings.reference_tolerance
    return partial(reference_row, motion, problem, draws, tolerance, watch)


def _ensemble(problem: Problem, settings: AdditionalSettings, posterior: dims.Posterior) -> Row:
    """Networks trained as that of the tables, from other seeds; prior and noise are its own."""
    began = time.perf_counter()
    # Seeds that no network of the tables has, others for every seed of the problem.
    seeds = [1000 * (problem.seed + 1) + number for number in range(settings.members)]
    members = [member.to(problem.device) for member in problem.task.train_together(seeds)]
    surface = posterior.surface
    draws = dims.deep_ensemble(
        members,
        (surface.data.inputs, surface.data.targets),
        surface.likelihood,
        prior_precision=surface.prior_precision,
    )
    return problem.evaluation.row(
        "Ensemble",
        draws,
        draws=settings.members,
        seconds=time.perf_counter() - began,
        diagnostics={"loss": draws.loss.tolist()},
    )


def _swag(
    problem: Problem, settings: AdditionalSettings, model: nn.Module, posterior: dims.Posterior
) -> Row:
    began = time.perf_counter()
    surface = posterior.surface
    draws = dims.swag(
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
    return problem.evaluation.row(
        "SWAG",
        draws,
        seconds=time.perf_counter() - began,
        diagnostics={"loss": draws.loss.tolist()},
    )


def _defaults(
    problem: Problem, settings: AdditionalSettings, store: Path, posterior: dims.Posterior
) -> Row:
    """Draws brought to rest and certified, in the paper's metric; kept in a store."""
    began, resumed = time.perf_counter(), store.exists()
    draws = posterior.sample(
        problem.draws,
        dims.DiMS(
            max_time=settings.resting_time,
            settle="stiff",
            certify=True,
            compile=problem.compiled,
            metric="euclidean",
        ),
        seed=problem.seed,
        progress=False,
        store=store,
        # A compiled batch keeps nothing before its end.
        chunk_size=25 if problem.compiled else problem.draws,
    )
    shutil.rmtree(store)
    more = diagnostics_of(draws, "gradient_norm", "smallest_eigenvalue")
    return problem.evaluation.row(
        "DiMS defaults",
        draws,
        t1=draws.settings["max_time"],
        eta0=draws.settings["friction"],
        # Of an earlier call they are not known.
        seconds=None if resumed else time.perf_counter() - began,
        diagnostics=more | {"verdict": list(draws.verdict or ())},
    )
