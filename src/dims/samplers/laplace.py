"""The sampled Laplace approximation: θ = θ* + ε."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dims.draws import Draws
from dims.draws.measure import measure
from dims.samplers.start import Start
from dims.shapes import RowVectors
from dims.solvers.batch import Progress

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace:
    """No settings: the Gaussian is all there is."""

    def sample(
        self,
        start: Start,
        noise: RowVectors,
        seed: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> Draws:
        thetas = start.position + noise
        return Draws(
            parameters=thetas,
            method="la",
            surface=start.surface,
            map_parameters=start.position,
            seed=seed,
            **measure(start.surface, thetas),
        )
