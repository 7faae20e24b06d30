"""Stand-ins for names of the library that are being added there; to be deleted with their arrival.

Each says what replaces it. Function calls become methods: `sample(posterior, 30, DiMS())` is
`posterior.sample(30, DiMS())`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.parts import confidence_sets as old_confidence_sets
from dims.mechanics.batch import Progress
from dims.mechanics.dynamics import Dynamics, dissipative, geodesic
from dims.mechanics.integrate import Trajectories
from dims.prediction.metrics import Metrics
from dims.prediction.metrics import ood_metrics as ood_metrics_of
from dims.sampling.draws import Draws
from dims.sampling.draws.measure import measure as measured
from dims.sampling.posterior import Posterior
from dims.sampling.samplers.dissipative import Dissipative
from dims.sampling.samplers.riemannian import Riemannian
from dims.sampling.samplers.start import Start, follow, trajectory_fields
from dims.surface.loss import LossSurface


@dataclass(frozen=True)
class LA:  # dims.LA
    method = "la"


@dataclass(frozen=True)
class LinLA:  # dims.LinLA
    method = "linla"


@dataclass(frozen=True)
class RLA:  # dims.RLA
    method = "rla"
    max_time: float = 1.0
    precondition: bool = True
    solver: str = "rattle"
    compile: bool = False
    save_at: Sequence[float] = ()

    @property
    def dynamics(self) -> Dynamics:
        return geodesic()


@dataclass(frozen=True)
class DiMS:  # dims.DiMS
    method = "dims"
    friction: float = 0.1
    gravity: float = 1.0
    max_time: float = 50.0
    precondition: bool = True
    solver: str = "rattle"
    tolerance: float | None = None
    save_at: Sequence[float] = ()
    settle: str = "stiff"
    certify: bool = True
    compile: bool = False

    @property
    def dynamics(self) -> Dynamics:
        return dissipative(self.gravity, self.friction)


Sampler = LA | LinLA | RLA | DiMS  # dims.sampling.samplers.Sampler
SAVED: dict[int, dict[float, Draws]] = {}


def sample(  # posterior.sample
    posterior: Posterior,
    draws: int,
    method: Sampler,
    *,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] = False,
    **where: Any,
) -> Draws:
    if isinstance(method, (RLA, DiMS)) and method.save_at:
        return _sample_at(posterior, draws, method, seed, progress)
    usual = vars(type(method)())
    how = {k: v for k, v in vars(method).items() if k != "save_at" and v != usual[k]}
    if how.get("settle") == "none":
        how["settle"] = None
    return posterior.sample(draws, method.method, seed=seed, progress=progress, **how, **where)


def _sample_at(
    posterior: Posterior, count: int, method: RLA | DiMS, seed: int, progress: Any
) -> Draws:
    start = Start(posterior.surface, posterior.map_parameters, posterior.gradient)
    noise = posterior.velocities(count, seed)
    moving = (
        Riemannian(method.max_time, method.precondition, method.solver)
        if isinstance(method, RLA)
        else Dissipative(
            method.friction,
            method.gravity,
            method.max_time,
            method.precondition,
            method.solver,
            method.tolerance,
        )
    )
    times = torch.tensor(method.save_at, dtype=torch.float64)
    path: Trajectories = follow(
        moving, start, noise, progress if callable(progress) else None, times
    )
    drawn = Draws(
        parameters=path.end,
        method=method.method,
        surface=posterior.surface,
        map_parameters=posterior.map_parameters,
        seed=seed,
        **trajectory_fields(path),
    )
    SAVED[id(drawn)] = {
        float(t): replace(
            drawn,
            parameters=path.positions[i],
            loss=path.loss[i],
            gradient_norm=path.gradient_norm[i],
            kinetic_energy=path.kinetic_energy[i],
        )
        for i, t in enumerate(path.times)
    }
    return drawn


def at(draws: Draws, time: float) -> Draws:  # draws.at(time)
    return SAVED[id(draws)][time]


def from_parameters(  # dims.Draws.from_parameters
    surface: LossSurface,
    parameters: Tensor,
    method: str = "map",
    map_parameters: Tensor | None = None,
    measure: bool = True,
) -> Draws:
    return Draws(
        parameters=parameters,
        method=method,
        surface=surface,
        map_parameters=surface.initial if map_parameters is None else map_parameters,
        **(measured(surface, parameters) if measure else {}),
    )


def ood_metrics(predictive: Any, other: Any) -> Metrics:  # predictive.ood_metrics(other)
    return ood_metrics_of(predictive.log_probabilities, other.log_probabilities)


def perturbations(posterior: Posterior, draws: int, seed: int = 0) -> Tensor:
    return posterior.velocities(draws, seed)  # posterior.perturbations(draws, seed)


def confidence_sets(  # dims.commands.pages.parts.confidence_sets
    found: dict[str, Any], name: str, auroc: dict[str, float]
) -> list[dict[str, Any]]:
    both = {**found, "known": found["in_distribution"], "foreign": found["ood"]}
    return old_confidence_sets(both, name, auroc)
