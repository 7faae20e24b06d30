"""`Posterior`: a surface, θ*, the curvature there, and draws by four methods."""

from __future__ import annotations

import dataclasses
import hashlib
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dims.curvature import Curvature
from dims.curvature.evidence import (
    EvidenceFit,
)
from dims.mechanics.batch import Progress
from dims.model.shapes import RowVectors, Vector
from dims.sampling.draws import Draws
from dims.sampling.engine import Engine, Job, Work, resolve_engine
from dims.sampling.perturbations import start_velocities
from dims.sampling.progress import RunProgress, progress_reporter
from dims.sampling.samplers import SAMPLERS, Start
from dims.sampling.store import fingerprint, jobs_of, join, sample_in_store
from dims.surface.loss import LossSurface

__all__ = ["Posterior"]


@dataclass(frozen=True, eq=False)
class Posterior:
    """A surface, θ*, the curvature there and the evidence; everything sampling needs."""

    surface: LossSurface
    map_parameters: Vector
    curvature: Curvature
    gradient: Vector  # of the surface at θ*
    log_marginal_likelihood: float
    evidence: EvidenceFit | None  # None where nothing was tuned

    @property
    def prior_precision(self) -> float | Tensor:
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

    def velocities(self, count: int, seed: int = 0, first: int = 0) -> RowVectors:
        """ε of draws `first` … `first` + count − 1, centred Laplace draws, (count, K).

        Draw i depends on (seed, i) only, and all methods share it.
        """
        precision = self.curvature.precision_for(self.surface)
        return start_velocities(precision, count, seed, first)

    def sample(
        self,
        count: int,
        method: str = "dims",
        *,
        friction: float | None = None,
        gravity: float | None = None,
        max_time: float | None = None,
        precondition: bool | None = None,
        solver: str | None = None,
        tolerance: float | None = None,
        settle: Literal["stiff", "full", "default"] | None = "default",
        certify: bool | None = None,
        compile: bool | None = None,
        seed: int = 0,
        progress: bool | Callable[[Progress], None] = True,
        store: str | os.PathLike[str] | None = None,
        chunk_size: int = 50,
        engine: str | Engine | None = None,
        retry_failed: bool = False,
    ) -> Draws:
        """Draw S parameter vectors by "la", "linla", "rla" or "dims".

        What is left at None takes the method's default: friction 0.1, gravity 1, max_time 1 for
        "rla" and 50 for "dims", start velocity G^(−½)ε (`precondition=False`: ε, as the published
        runs), solver "rattle", settling "stiff" (`settle=None`: none). An argument that means
        nothing to the method is refused.

        With a `store`, a folder, draws are made and kept `chunk_size` at a time; the same call
        after an interruption goes on where it stopped, and with `retry_failed` tries the draws
        that failed once more with a finer tolerance. `engine="ray"` (or `dims.Ray(...)`) computes
        the same chunks on a Ray cluster.
        """
        if isinstance(count, bool) or not hasattr(count, "__index__"):
            raise TypeError(f"count: expected a number of draws, got {count!r}")
        count = operator.index(count)
        if count < 1:
            raise ValueError(f"count: the number of draws must be at least 1, got {count}")
        if solver is not None and not isinstance(solver, str):
            raise TypeError(f"solver: give its name; an object such as {solver!r} is for integrate")
        if method not in SAMPLERS:
            raise ValueError(f"method: {method!r} is unknown; there are {', '.join(SAMPLERS)}")
        given: dict[str, Any] = {
            "friction": friction,
            "gravity": gravity,
            "max_time": max_time,
            "precondition": precondition,
            "solver": solver,
            "tolerance": tolerance,
            "certify": certify,
            "compile": compile,
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        if settle != "default":
            chosen["settle"] = settle
        kind = SAMPLERS[method]
        known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        for name in chosen:
            if name not in known:
                raise ValueError(f"{name}: it has no meaning for method {method!r}; leave it out")
        sampler = kind(**chosen)
        if not isinstance(chunk_size, int) or chunk_size < 1:
            raise ValueError(f"chunk_size: must be at least 1, got {chunk_size!r}")
        if retry_failed and store is None:
            raise ValueError("retry_failed: the draws that failed are in a store; give its folder")
        chosen_engine = resolve_engine(engine)
        if store is None and engine is None:
            chunk_size = count
        start = Start(self.surface, self.map_parameters, self.gradient)
        precision = self.curvature.precision_for(self.surface)
        with progress_reporter(progress, method) as report:

            def compute(
                jobs: Sequence[Job], threads: int, done: int
            ) -> Iterator[tuple[Job, Draws]]:
                work = Work(start, precision, sampler, seed, threads)
                total = done + sum(len(job.rows) for job in jobs)
                yield from chosen_engine.run(work, jobs, RunProgress(report, total, done))

            if store is None:
                jobs = list(jobs_of(count, chunk_size))
                made = dict(compute(jobs, chosen_engine.threads, 0))
                return join(made[job] for job in jobs)
            run = {**self._run(method, vars(sampler), seed), "threads": chosen_engine.threads}
            return sample_in_store(
                store, run, count, chunk_size, self.surface, compute, retry_failed=retry_failed
            )

    def _run(self, method: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
        """What the bits of draws depend on, for the manifest of a store."""
        return {
            "method": method,
            "settings": settings,
            "seed": seed,
            "fingerprint": fingerprint(self.surface, self.map_parameters),
            "curvature": self.curvature_fingerprint,
            "device": self.map_parameters.device.type,
            "torch": torch.__version__,
        }

    @property
    def curvature_fingerprint(self) -> str:
        """sha256 of the first velocity: other curvatures draw others."""
        return hashlib.sha256(self.velocities(1).cpu().numpy().tobytes()).hexdigest()
