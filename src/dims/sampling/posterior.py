"""`fit`: from a trained network to a posterior; `Posterior.sample`: draws by four methods."""

from __future__ import annotations

import dataclasses
import hashlib
import operator
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dims.curvature import Curvature, fit_curvature, from_laplace
from dims.curvature.evidence import (
    EvidenceFit,
    log_marginal_likelihood,
    tune_evidence,
    tuned_surface,
)
from dims.mechanics.batch import Progress
from dims.model.likelihoods import Gaussian, Likelihood, given_noise, with_noise
from dims.model.parameters import Selection
from dims.model.shapes import RowVectors, Vector
from dims.sampling.draws import Draws
from dims.sampling.engine import Engine, Job, Work, resolve_engine
from dims.sampling.perturbations import start_velocities
from dims.sampling.progress import RunProgress, progress_reporter
from dims.sampling.samplers import SAMPLERS, Start
from dims.sampling.settle import settle
from dims.sampling.store import fingerprint, jobs_of, join, sample_in_store
from dims.surface.loss import LossSurface

__all__ = ["NotAMinimumWarning", "Posterior", "fit"]


class NotAMinimumWarning(UserWarning):
    """θ* is not a minimum of the surface that is sampled."""


STEEP = 1.0  # ‖g(θ*)‖ above this: the graph is steeper than 45° where sampling starts


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
        """σ of a Gaussian likelihood; None for classification."""
        likelihood = self.surface.likelihood
        return likelihood.noise_std if isinstance(likelihood, Gaussian) else None

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


def fit(
    model: nn.Module,
    train_data: Any,
    likelihood: str | Likelihood,
    *,
    curvature: str | Any = "full",
    curvature_kind: str = "ggn",
    rank: int = 100,
    tune: bool = True,
    prior_precision: float | Tensor | None = None,
    noise_std: float | None = None,
    prior_structure: str = "scalar",
    effective_points: float | None = None,
    loss_scale: float = 1.0,
    refine: bool = False,
    parameters: Selection = None,
) -> Posterior:
    """Fit the Laplace posterior of a trained network, which also gives the start velocities.

    `curvature` is "full", "diagonal", "kronecker", "low_rank" or a fitted laplace-torch object.
    With `tune`, prior precision (and noise) maximise the marginal likelihood, but for values that
    are given, also as `Gaussian(σ)`; without it the given values stand (1 where none is given).
    `refine` walks θ* to a minimum of the surface that is sampled, which differs from the one it
    was trained on.
    """
    if not tune and not isinstance(curvature, str):
        prior_precision, noise_std = _adopted(curvature, likelihood, prior_precision, noise_std)
    noise_std = given_noise(likelihood, noise_std)
    likelihood = with_noise(likelihood, noise_std)
    surface = LossSurface(
        model,
        train_data,
        likelihood,
        1.0 if prior_precision is None else prior_precision,
        effective_points=effective_points,
        loss_scale=loss_scale,
        parameters=parameters,
    )
    if refine and not isinstance(curvature, str):
        raise ValueError(
            "refine: it moves θ*, and a fitted laplace-torch object belongs to the old one; give "
            "one of the two"
        )
    theta = surface.initial
    evidence = None
    fitted = _fit_curvature(surface, theta, curvature, curvature_kind, rank)
    noise_known = noise_std is not None or not isinstance(surface.likelihood, Gaussian)
    if tune and not (prior_precision is not None and noise_known):
        evidence = tune_evidence(
            surface,
            theta,
            fitted,
            prior="fixed" if prior_precision is not None else prior_structure,
            tune_noise=noise_std is None,
        )
        surface = tuned_surface(surface, evidence)
    if refine:
        theta = settle(surface, theta.unsqueeze(0), method="full").positions[0]
        fitted = _fit_curvature(surface, theta, curvature, curvature_kind, rank)
    _, gradient = surface.value_and_grad(theta.unsqueeze(0))
    posterior = Posterior(
        surface,
        theta,
        fitted,
        gradient[0],
        log_marginal_likelihood(surface, theta, fitted),
        evidence,
    )
    if posterior.gradient_norm > STEEP:
        warnings.warn(
            f"θ* is no minimum of the sampled surface: its gradient norm is "
            f"{posterior.gradient_norm:.3g} (training minimised another loss, or stopped early). "
            "Draws start on a slope; refine=True walks to a minimum first",
            NotAMinimumWarning,
            stacklevel=2,
        )
    return posterior


def _adopted(
    fitted: Any,
    likelihood: str | Likelihood,
    prior_precision: float | Tensor | None,
    noise_std: float | None,
) -> tuple[float | Tensor | None, float | None]:
    """Prior and noise of a laplace-torch object where none are given: its posterior is meant."""
    if prior_precision is None:
        diagonal = fitted.prior_precision_diag.detach()
        prior_precision = float(diagonal[0]) if (diagonal == diagonal[0]).all() else diagonal
    if noise_std is None and likelihood == "regression":
        noise_std = float(fitted.sigma_noise)
    return prior_precision, noise_std


def _fit_curvature(
    surface: LossSurface, theta: Vector, curvature: str | Any, kind: str, rank: int
) -> Curvature:
    if isinstance(curvature, str):
        return fit_curvature(surface, theta, curvature, kind, rank)
    return from_laplace(curvature, surface, theta)
