"""A trained network, its posterior, and the rows of the paper's methods: MAP, LA, LinLA, RLA, DiMS.

UCI, banana and Snelson are each a `Problem`; `run_problem` draws from it by every method and scores
the draws, all on the road `dims.fit` → `posterior.sample` → `draws.predict` → `.metrics`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

import dims
from dims.mechanics.batch import Progress
from dims_paper.schema import Row, Run
from dims_paper.scoring import Evaluation, diagnostics_of, draws_of
from dims_paper.training import Task

Report = Callable[[str], None]
Methods = list[tuple[str, float | None, dims.Sampler]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """One network of an experiment: how it is trained, fitted, drawn from and scored.

    Args:
        name: Of the files of its run.
        experiment: Of the run, as `dataset`, `settings` and `figure`.
        task: The network and its training data.
        likelihood: As `dims.fit` takes it.
        evaluation: Where draws are scored.
        draws: How many, by every method.
        frictions: η₀ of DiMS, a row for each.
        trained: False: from the weights that the network was initialised with.
        facts: By which tables know the run, such as its protocol.
        device: Where draws are made; the network is trained on the CPU.
    """

    name: str
    experiment: str
    dataset: str
    task: Task
    likelihood: str | dims.Likelihood
    evaluation: Evaluation
    draws: int
    seed: int
    frictions: tuple[float, ...]
    max_time: float
    rla_time: float = 1.0
    curvature_kind: str = "ggn"
    trained: bool = True
    compile: bool = False
    device: str = "cpu"
    facts: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    figure: dict[str, Any] = field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        """On a GPU always: a step is too short to be sent to the device piece by piece."""
        return self.compile or self.device != "cpu"

    def prefixed(self, report: Report | None) -> Report:
        """A report that names the problem."""
        say = report or (lambda _: None)
        return lambda what: say(f"{self.dataset}, seed {self.seed}: {what}")

    def posterior(self, model: nn.Module) -> dims.Posterior:
        """The posterior where training with dropout ended.

        That is not a minimum of the loss without dropout; the published runs start there too.
        """
        data = (self.task.inputs.to(self.device), self.task.targets.to(self.device))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dims.NotAMinimumWarning)
            return dims.fit(
                model.to(self.device).eval(),
                data,
                self.likelihood,
                curvature_kind=self.curvature_kind,
                tune=True,
            )

    def samplers(self) -> Methods:
        """The paper's methods: label, η₀ and sampler. They start from ε itself, are not settled."""
        rla = dims.RLA(max_time=self.rla_time, precondition=False, compile=self.compiled)
        rows: Methods = [("LA", None, dims.LA()), ("LinLA", None, dims.LinLA()), ("RLA", None, rla)]
        for friction in self.frictions:
            falling = dims.DiMS(
                friction=friction,
                max_time=self.max_time,
                precondition=False,
                settle="none",
                certify=False,
                compile=self.compiled,
                metric="euclidean",
            )
            rows.append(("DiMS", friction, falling))
        return rows


def run_problem(
    problem: Problem,
    report: Report | None = None,
    follow: Callable[[dims.Posterior], dict[str, Any]] | None = None,
) -> Run:
    """Train, tune by the evidence, draw by every method, and score.

    Args:
        problem: The network and its data.
        report: Gets what is being done, as a text that may end in a percentage.
        follow: Further data for figures, from the posterior.

    Returns:
        The run, with a row for each method.
    """
    say = report or (lambda _: None)
    seed = problem.seed
    task = problem.task
    model = task.train(seed, training_report(say)) if problem.trained else task.fresh(seed)
    say("curvature and evidence")
    posterior = problem.posterior(model)
    theta = posterior.map_parameters.unsqueeze(0)
    at_map = draws_of(posterior.surface, theta)
    rows = [problem.evaluation.row("MAP", at_map)]
    for label, eta0, sampler in problem.samplers():
        name = label if eta0 is None else f"{label} (η₀ = {eta0})"
        say(name)
        rows += _rows(label, eta0, sampler, problem, posterior, percent(say, name))
    return Run(
        experiment=problem.experiment,
        dataset=problem.dataset,
        seed=seed,
        draws=problem.draws,
        settings=problem.settings,
        facts={**problem.facts, **facts_of(posterior)},
        rows=rows,
        figure={**problem.figure, **(follow(posterior) if follow else {})},
    )


def facts_of(posterior: dims.Posterior) -> dict[str, Any]:
    """What the fit found."""
    names = ("prior_precision", "noise_std", "gradient_norm", "log_marginal_likelihood")
    found = {"parameters": posterior.surface.size}
    found |= {name: getattr(posterior, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _rows(
    label: str,
    eta0: float | None,
    sampler: dims.Sampler,
    problem: Problem,
    posterior: dims.Posterior,
    progress: Callable[[Progress], None],
) -> list[Row]:
    """The row of a method; DiMS has a second one, for the same draws settled."""
    began = time.perf_counter()
    draws = posterior.sample(problem.draws, sampler, seed=problem.seed, progress=progress)
    fields: dict[str, Any] = {"eta0": eta0, "seconds": time.perf_counter() - began}
    if isinstance(sampler, dims.RLA | dims.DiMS):
        fields |= {"t1": sampler.max_time, "diagnostics": diagnostics_of(draws)}
    rows = [problem.evaluation.row(label, draws, **fields)]
    if isinstance(sampler, dims.DiMS):
        rested = dims.settle(posterior.surface, draws.parameters).positions
        settled = draws_of(posterior.surface, rested)
        loss = posterior.surface.value(rested).tolist()
        fields["diagnostics"] = {**fields["diagnostics"], "loss": loss}
        rows.append(problem.evaluation.row("DiMS settled", settled, **fields))
    return rows


def training_report(say: Report) -> Callable[[float], None]:
    return lambda part: say(f"training {100 * part:.0f} %")


def percent(say: Report, what: str) -> Callable[[Progress], None]:
    """Tells how far a batch of trajectories is, as a text that ends in a percentage."""

    def tell(now: Progress) -> None:
        moved = now.done * now.end_time + (now.rows - now.done) * now.mean_time
        say(f"{what} {100 * moved / (now.rows * now.end_time):.0f} %")

    return tell
