"""The sampled Laplace approximation: θ = θ* + ε."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dims.model.shapes import RowVectors
from dims.sampling.samplers.base import Report, Sampler, Start

__all__ = ["LA"]


@dataclass(frozen=True)
class LA(Sampler):
    """Sampled Laplace approximation: draws of the Gaussian at θ*, `method="la"`.

        θ = θ* + ε,     ε ~ N(0, Σ)

    It has no settings.

    Example:
        >>> draws = posterior.sample(30, dims.LA())
    """

    name: ClassVar[str] = "la"
    measured: ClassVar[bool] = True  # whether the loss of θ* + ε means something

    def draw(
        self, start: Start, perturbations: RowVectors, progress: Report | None = None
    ) -> dict[str, Any]:
        """Add ε to θ*; see `Sampler.draw`."""
        thetas = start.position + perturbations
        return {"parameters": thetas, **(start.measure(thetas) if self.measured else {})}
