"""The sampled Laplace approximation: θ = θ* + ε."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dims.mechanics.batch import Progress
from dims.model.shapes import RowVectors
from dims.sampling.draws import Draws
from dims.sampling.draws.measure import measure
from dims.sampling.samplers.start import Start

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
