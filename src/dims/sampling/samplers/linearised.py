"""The linearised Laplace approximation: f(θ*) + J_f(θ*)·ε, with the points of `la`.

Reference: A. Immer, M. Korzepa and M. Bauer, "Improving predictions of Bayesian neural nets via
local linearization", AISTATS 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dims.mechanics.batch import Progress
from dims.model.shapes import RowVectors
from dims.sampling.draws import Draws
from dims.sampling.samplers.start import Start

__all__ = ["Linearised"]


@dataclass(frozen=True)
class Linearised:
    """No settings. The draws are points of the tangent space; their loss has no meaning."""

    def sample(
        self,
        start: Start,
        noise: RowVectors,
        seed: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> Draws:
        return Draws(
            parameters=start.position + noise,
            method="linla",
            surface=start.surface,
            map_parameters=start.position,
            seed=seed,
        )
