"""The linearised Laplace approximation: f(θ*) + J_f(θ*)·ε, with the points of `LA`.

Reference: A. Immer, M. Korzepa and M. Bauer, "Improving predictions of Bayesian neural nets via
local linearization", AISTATS 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dims.model.shapes import RowVectors
from dims.sampling.samplers.base import Report, Sampler, Start

__all__ = ["LinLA"]


@dataclass(frozen=True)
class LinLA(Sampler):
    """Linearised Laplace approximation: the draws of `LA`, read by the linearised network.

        f(x, θ) ≈ f(x, θ*) + J_f(x, θ*)·ε,     ε ~ N(0, Σ)

    It has no settings. The draws are points of the tangent space at θ*, so they have no loss.
    `method="linla"` is the same.

    Example:
        >>> draws = posterior.sample(30, dims.LinLA())
    """

    name: ClassVar[str] = "linla"

    def draw(
        self, start: Start, perturbations: RowVectors, progress: Report | None = None
    ) -> dict[str, Any]:
        """Add ε to θ*; see `Sampler.draw`."""
        return {"parameters": start.position + perturbations}
