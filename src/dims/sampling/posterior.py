"""`Posterior`: a surface, θ*, the curvature there, and draws by a sampler."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from dims.curvature import Curvature
from dims.curvature.evidence import EvidenceFit
from dims.errors import renamed_arguments, warn_renamed
from dims.mechanics.batch import Progress
from dims.mechanics.dynamics import Friction
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.solvers.base import Solver
from dims.model.checks_module import refuse_inference_mode
from dims.model.shapes import RowVectors, Vector, check_integer
from dims.model.torch_support.free_memory import free_memory
from dims.model.training_data import TrainingData
from dims.prediction.showing import Shown
from dims.sampling.answer import answer
from dims.sampling.draws import Draws
from dims.sampling.draws.joined import join
from dims.sampling.engine import Engine, Job, Work, resolve_engine
from dims.sampling.estimate import Estimate, check_memory, estimate_seconds, needed_memory
from dims.sampling.perturbations import check_seed, perturbations
from dims.sampling.posterior_summary import summarise_posterior
from dims.sampling.progress import RunProgress, progress_reporter
from dims.sampling.samplers import Motion, Sampler, Start, choose_sampler
from dims.sampling.settle import Settled
from dims.sampling.starts import OtherStart, minima, starts_of
from dims.sampling.store.chunks import jobs_of
from dims.sampling.store.manifest import run_of
from dims.sampling.store.run import sample_in_store
from dims.sampling.weighing import Way, times_to_weigh
from dims.surface.loss import LossSurface

__all__ = ["Posterior"]


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Shown):
    """A trained network with the curvature of its loss: everything that sampling needs.

    `dims.fit` makes it.

    Attributes:
        surface: The loss surface that is sampled, with its prior and noise.
        map_parameters: The trained θ*, (K,).
        curvature: The curvature of the likelihood there.
        gradient: The gradient of the surface there, (K,).
        log_marginal_likelihood: The Laplace approximation of the evidence.
        evidence: How prior and noise were tuned; None where nothing was.
        refinement: How `refine` ended, as `dims.settle` reports it; None where it was not asked.
        validation: Held-out rows, which weigh the network and the times of draws; None: no rows.
        others: What is known of the other networks, where several were given; what is said of θ*
            belongs to the first.
        before: The posterior that has not seen the held-out rows, whose draws they weigh, where
            this one has learnt them (`refit`); None elsewhere.

    Example:
        >>> posterior = dims.fit(model, (x, y), "regression")
        >>> draws = posterior.sample(30)
    """

    surface: LossSurface
    map_parameters: Vector
    curvature: Curvature
    gradient: Vector
    log_marginal_likelihood: float
    evidence: EvidenceFit | None
    refinement: Settled | None = None
    validation: TrainingData | None = None
    before: Posterior | None = None
    others: tuple[OtherStart, ...] = ()

    def _facts(self) -> dict[str, Any]:
        return {
            **self.surface._facts(),
            "curvature": type(self.curvature).__name__,
            "gradient_norm": self.gradient_norm,
            "log_marginal_likelihood": self.log_marginal_likelihood,
        }

    @property
    def prior_precision(self) -> float | Tensor:
        """Precision of the Gaussian prior: a number, or one for each parameter, (K,)."""
        precision = self.surface.prior_precision
        return float(precision) if precision.ndim == 0 else precision

    @property
    def noise_std(self) -> float | None:
        """σ of the likelihood; None where it has none (classification)."""
        return self.surface.likelihood.noise_std

    @property
    def gradient_norm(self) -> float:
        """‖g(θ*)‖: zero at a true minimum of the sampled surface."""
        return float(self.gradient.double().norm())

    def perturbations(self, draws: int, seed: int = 0, first: int = 0) -> RowVectors:
        """ε, the centred Laplace draws that all methods share: ε ~ N(0, Σ).

        Laplace draws are θ* + ε; the default start velocity of a trajectory is G^(−½)·ε.

        Args:
            draws: How many.
            seed: Draw i depends on (seed, i) only.
            first: The number of the first one.

        Returns:
            ε of draws `first` … `first` + draws − 1, (draws, K).

        Raises:
            ValueError: A number is negative.

        Example:
            >>> posterior.map_parameters + posterior.perturbations(10)
        """
        return perturbations(self.curvature.precision_for(self.surface), draws, seed, first)

    def summary(self) -> str:
        """A report in plain text: prior and noise, how they were chosen, and where θ* is.

        Returns:
            Some lines to print.

        Example:
            >>> print(dims.fit(model, (x, y), "regression").summary())
        """
        return summarise_posterior(self)

    def velocities(self, count: int, seed: int = 0, first: int = 0) -> RowVectors:
        """Deprecated name of `perturbations`."""
        warn_renamed("Posterior.velocities", "Posterior.perturbations")
        return self.perturbations(count, seed, first)

    @renamed_arguments(count="draws")
    def sample(
        self,
        draws: int,
        method: str | Sampler = "dims",
        *,
        friction: float | Friction | None = None,
        gravity: float | None = None,
        max_time: float | None = None,
        precondition: bool | None = None,
        solver: str | Solver | None = None,
        tolerance: float | None = None,
        save_at: Sequence[float] | None = None,
        settle: Literal["stiff", "full", "none", "default"] | None = "default",
        certify: bool | None = None,
        compile: bool | None = None,
        metric: str | MovingMetric | None = None,
        seed: int = 0,
        progress: bool | Callable[[Progress], None] = True,
        store: str | os.PathLike[str] | None = None,
        chunk_size: int = 50,
        engine: str | Engine | None = None,
        retry_failed: bool = False,
    ) -> Draws:
        """Draw parameter vectors; keywords up to `metric` are fields of a sampler.

        Args:
            draws: How many.
            method: "la", "linla", "rla", "dims", or a sampler such as `dims.DiMS(friction=0.5)`.
            friction: See `DiMS`; None takes the sampler's default, here and below.
            gravity: See `DiMS`.
            max_time: See `DiMS` and `RLA`.
            precondition: See `DiMS` and `RLA`.
            solver: See `DiMS` and `RLA`.
            tolerance: See `DiMS` and `RLA`.
            save_at: See `DiMS` and `RLA`.
            settle: See `DiMS`; None is deprecated and means "none".
            certify: See `DiMS`.
            compile: See `DiMS` and `RLA`.
            metric: See `DiMS` and `RLA`.
            seed: Draw i depends on (seed, i) only.
            progress: Show a bar, or a line now and then in a log; or a function to call.
            store: Folder that keeps finished chunks; the same call resumes an interrupted run.
            chunk_size: Draws computed and kept together.
            engine: None (this process), "ray" or `dims.Ray(...)`.
            retry_failed: Try failed draws of a store again with a finer tolerance.

        Returns:
            The draws in order; `mixture` says what counts in their predictions.

        Raises:
            ValueError: A value is out of range, or has no meaning for the method.
            StoreError: The store holds another run.

        Example:
            >>> draws = posterior.sample(30, dims.DiMS(friction=0.5), store="runs/first")
        """
        forces = (friction, gravity, max_time, precondition, solver, tolerance)
        times = times_to_weigh(self, method, max_time, save_at)
        sampler = choose_sampler(method, Motion(*forces, times, compile, metric), settle, certify)
        return self._run(draws, sampler, seed, progress, store, chunk_size, engine, retry_failed)

    def estimate(
        self, draws: int, method: str | Sampler = "dims", *, within: float = 5
    ) -> Estimate:
        """What `sample` of so many draws at once would take, before it is run.

        Args:
            draws: Number of draws.
            method: A method's name, or a sampler such as `dims.DiMS(friction=0.5)`.
            within: Seconds that finding out may take.

        Returns:
            Memory in bytes and the time of the motion in seconds.

        Raises:
            MemoryLimitError: The draws do not fit into the memory that is free.

        Example:
            >>> print(posterior.estimate(100))
        """
        draws = _check_count(draws)
        times = times_to_weigh(self, method, None, None)
        sampler = choose_sampler(method, Motion(save_at=times), "default", None)
        check_memory(self.surface, sampler, draws)
        start = Start(self.surface, self.map_parameters, self.gradient)
        seconds = estimate_seconds(start, self.perturbations(draws), sampler, float(within))
        memory = needed_memory(self.surface, sampler, draws)
        return Estimate(memory, free_memory(self.map_parameters.device), seconds)

    def _run(
        self,
        draws: int,
        sampler: Sampler,
        seed: int,
        progress: bool | Callable[[Progress], None],
        store: str | os.PathLike[str] | None,
        chunk_size: int,
        engine: str | Engine | None,
        retry_failed: bool,
    ) -> Draws:
        """All chunks by an engine, with a store or without."""
        refuse_inference_mode()
        draws, seed = _check_count(draws), check_seed("seed", seed)
        check_integer("chunk_size", chunk_size)
        if retry_failed and store is None:
            raise ValueError("retry_failed: the draws that failed are in a store; give its folder")
        chosen = resolve_engine(engine)
        if store is None and engine is None:
            chunk_size = draws
        check_memory(self.surface, sampler, min(draws, chunk_size))
        start = Start(self.surface, self.map_parameters, self.gradient)
        precision = self.curvature.precision_for(self.surface)
        others = starts_of(self, sampler)
        with progress_reporter(progress, sampler.name) as report:

            def compute(
                jobs: Sequence[Job], threads: int, done: int
            ) -> Iterator[tuple[Job, Draws]]:
                work = Work(start, precision, sampler, seed, threads, others)
                total = done + sum(len(job.rows) for job in jobs)
                yield from chosen.run(work, jobs, RunProgress(report, total, done))

            if store is None:
                jobs = list(jobs_of([draws], chunk_size))
                made = dict(compute(jobs, chosen.threads, 0))
                kept = join(made[job] for job in jobs)
            else:
                kept = sample_in_store(
                    store,
                    run_of(self, minima(self), sampler, seed, chosen.threads),
                    draws,
                    chunk_size,
                    self.surface,
                    sampler,
                    compute,
                    retry_failed=retry_failed,
                )
        return answer(self, kept, Way(sampler, chunk_size, chosen, progress), store)


def _check_count(draws: int) -> int:
    if isinstance(draws, bool) or not hasattr(draws, "__index__"):
        raise TypeError(f"draws: expected a number of draws, got {draws!r}")
    return check_integer("draws", operator.index(draws))
