"""Long trajectories on images: their initial state, and segments that each end in a file.

The initial state (surface, θ* and perturbations) is kept: a run that goes on after an interruption
needs no curvature again, and a curvature that another machine can compute and this one cannot may
come from there. The motion is Markov, so a segment needs nothing but positions and velocities. It
may be on another surface than the one before, such as one with more data; the energy then jumps by
the difference of the two losses, which is kept.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.mechanics.batch import Progress
from dims_paper.cache import kept_tensors

Data = tuple[Tensor, Tensor]  # inputs and targets


@dataclass(frozen=True, eq=False)
class InitialState:
    """The surface with its tuned prior, θ*, the ε of all draws, and what the fit found."""

    surface: dims.LossSurface
    position: Tensor
    velocities: Tensor
    facts: dict[str, float]  # prior_precision, gradient_norm, log_marginal_likelihood, fit_seconds

    def on(self, model: nn.Module, data: Data) -> dims.LossSurface:
        """The surface of other data: the same prior, and as many effective points."""
        return _surface(model, data, self.facts, self.surface.effective_points)


def _surface(
    model: nn.Module, data: Data, facts: dict[str, float], points: float | None
) -> dims.LossSurface:
    prior = facts["prior_precision"]
    return dims.LossSurface(model, data, "classification", prior, effective_points=points)


def fit_images(model: nn.Module, data: Data, **how: Any) -> tuple[dims.Posterior, dict[str, float]]:
    """The posterior and what the fit found; `how` goes to `dims.fit`."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        # θ* minimises the loss of all images without a prior; the published runs start there.
        warnings.simplefilter("ignore", dims.NotAMinimumWarning)
        posterior = dims.fit(model, data, "classification", **how)
    return posterior, {
        "prior_precision": float(posterior.prior_precision),
        "gradient_norm": posterior.gradient_norm,
        "log_marginal_likelihood": posterior.log_marginal_likelihood,
        "fit_seconds": time.perf_counter() - began,
    }


def initial_state(
    path: Path,
    model: nn.Module,
    data: Data,
    draws: int,
    seed: int,
    *,
    effective_points: float | None = None,
    **how: Any,
) -> InitialState:
    """A fit of curvature and evidence and its perturbations; `how` goes to `dims.fit`."""

    def make() -> dict[str, Tensor]:
        posterior, facts = fit_images(model, data, effective_points=effective_points, **how)
        numbers = {name: torch.tensor(value, dtype=torch.float64) for name, value in facts.items()}
        return {"velocities": posterior.perturbations(draws, seed), **numbers}

    found = kept_tensors(path, make)
    facts = {name: float(value) for name, value in found.items() if name != "velocities"}
    surface = _surface(model, data, facts, effective_points)
    velocities = found["velocities"][:draws].to(surface.initial)
    if len(velocities) < draws:
        raise ValueError(
            f"{path}: it holds {len(velocities)} start velocities, and {draws} draws are asked "
            "for; remove it, and it is made again"
        )
    return InitialState(surface, surface.initial, velocities, facts)


@dataclass(frozen=True, eq=False)
class Segment:
    """Times since the start at which positions are kept, the last of them its end."""

    times: tuple[float, ...]
    surface: dims.LossSurface


def follow(
    segments: Sequence[Segment],
    position: Tensor,
    velocity: Tensor,
    dynamics: dims.Dynamics,
    file_of: Callable[[Segment], Path],
    *,
    solver: Any = "rattle",
    progress: Callable[[float], Callable[[Progress], None]] | None = None,
) -> Iterator[tuple[Segment, Mapping[str, Tensor]]]:
    """Each segment and what is kept of it; evaluations, seconds and violation are since the start.

    What an evaluation is depends on the solver: of "dopri5" a gradient and a product.
    `progress` makes of the time at which a segment begins what `integrate` reports to.
    """
    device, began = str(position.device), 0.0
    seconds = torch.zeros((), dtype=torch.float64, device=device)
    evaluations = torch.zeros(len(velocity), dtype=torch.int64, device=device)
    violation = torch.zeros(len(velocity), dtype=torch.float64, device=device)
    before: dims.LossSurface | None = None
    for segment in segments:
        tell = None if progress is None else progress(began)
        make = partial(_segment, segment, position, velocity, began, before, dynamics, solver, tell)
        kept = kept_tensors(file_of(segment), make, device)
        position, velocity, began = kept["positions"][-1], kept["velocity"], segment.times[-1]
        before = segment.surface
        seconds, evaluations = seconds + kept["seconds"], evaluations + kept["evaluations"]
        violation = torch.maximum(violation, kept["energy_violation"])
        sums = {"seconds": seconds, "evaluations": evaluations, "energy_violation": violation}
        yield segment, {**kept, **sums}


def _segment(
    segment: Segment,
    position: Tensor,
    velocity: Tensor,
    began: float,
    before: dims.LossSurface | None,
    dynamics: dims.Dynamics,
    solver: Any,
    progress: Callable[[Progress], None] | None,
) -> dict[str, Tensor]:
    """Integrate a segment; of other times than its end no velocities are kept."""
    clock = time.perf_counter()
    motion = dims.integrate(
        segment.surface,
        position,
        velocity,
        dynamics=dynamics,
        solver=solver,
        max_time=segment.times[-1] - began,
        save_at=[t - began for t in segment.times],
        progress=progress,
    )
    seconds = torch.tensor(time.perf_counter() - clock, dtype=torch.float64)
    jump = torch.zeros_like(motion.start_energy)
    if before is not None and before is not segment.surface:
        # What the change of the surface added to the energy.
        jump = dynamics.potential(segment.surface.value(position) - before.value(position))
    return {
        "positions": motion.positions,
        "velocity": motion.velocities[-1],
        "loss": motion.loss,
        "kinetic_energy": motion.kinetic_energy,
        "gradient_norm": motion.gradient_norm,
        "evaluations": motion.evaluations,
        "energy_violation": motion.energy_violation,
        "status": torch.tensor([status.code for status in motion.status]),
        "seconds": seconds,
        "energy_jump": jump,
    }
