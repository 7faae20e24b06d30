"""Where trajectories of an experiment begin, kept in a file.

A run that goes on after an interruption needs no curvature again, and a curvature that another
machine can compute and this one cannot may come from there.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from dims.errors import NotAMinimumWarning
from dims.model.shapes import RowVectors, Vector
from dims.sampling.draws import Draws
from dims.sampling.fit import fit
from dims.sampling.samplers import SAMPLERS, Start
from dims.surface.loss import LossSurface
from dims_paper.experiments.runs import save_tensors

__all__ = ["Launch", "launch"]


@dataclass(frozen=True, eq=False)
class Launch:
    """The surface with its tuned prior, θ*, the ε of all draws, and what the fit found."""

    surface: LossSurface
    position: Vector
    velocities: RowVectors
    facts: dict[str, float]  # prior_precision, gradient_norm, log_marginal_likelihood, fit_seconds

    def draw(self, method: str, seed: int) -> Draws:
        """By a method without motion, "la" or "linla"; it shares ε with the others."""
        start = Start(self.surface, self.position, torch.zeros_like(self.position))
        return SAMPLERS[method]().sample(start, self.velocities, seed)

    def on(self, model: nn.Module, data: tuple[Tensor, Tensor]) -> LossSurface:
        """The surface of other data: the same prior, and as many effective points."""
        return LossSurface(
            model,
            data,
            "classification",
            self.facts["prior_precision"],
            effective_points=self.surface.effective_points,
        )


def launch(
    path: Path,
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    draws: int,
    seed: int,
    *,
    effective_points: float | None = None,
    **how: Any,
) -> Launch:
    """A fit of curvature and evidence and its velocities; `how` goes to `dims.fit`."""
    if not path.exists():
        began = time.perf_counter()
        with warnings.catch_warnings():
            # θ* minimises the loss of all images without a prior; the published runs start there.
            warnings.simplefilter("ignore", NotAMinimumWarning)
            posterior = fit(model, data, "classification", effective_points=effective_points, **how)
        velocities = posterior.perturbations(draws, seed)
        facts = {
            "prior_precision": float(posterior.prior_precision),
            "gradient_norm": posterior.gradient_norm,
            "log_marginal_likelihood": posterior.log_marginal_likelihood,
            "fit_seconds": time.perf_counter() - began,
        }
        numbers = {name: torch.tensor(value, dtype=torch.float64) for name, value in facts.items()}
        save_tensors({"velocities": velocities, **numbers}, path)
    found = load_file(path)
    facts = {name: float(value) for name, value in found.items() if name != "velocities"}
    surface = LossSurface(
        model,
        data,
        "classification",
        facts["prior_precision"],
        effective_points=effective_points,
    )
    velocities = found["velocities"][:draws].to(surface.initial)
    if len(velocities) < draws:
        raise ValueError(
            f"{path}: it holds {len(velocities)} start velocities, and {draws} draws are asked "
            "for; remove it, and it is made again"
        )
    return Launch(surface, surface.initial, velocities, facts)
