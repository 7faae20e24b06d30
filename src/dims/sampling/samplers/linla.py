"""The linearised Laplace approximation: f(θ*) + J_f(θ*)·ε, with the points of `LA`.

Reference: A. Immer, M. Korzepa and M. Bauer, "Improving predictions of Bayesian neural nets via
local linearization", AISTATS 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dims.sampling.samplers.la import LA

__all__ = ["LinLA"]


@dataclass(frozen=True)
class LinLA(LA):
    """Linearised Laplace approximation: the draws of `LA`, read by the linearised network.

        f(x, θ) ≈ f(x, θ*) + J_f(x, θ*)·ε,     ε ~ N(0, Σ)

    It has no settings. The draws are points of the tangent space at θ*, so they have no loss.
    `method="linla"` is the same.

    Example:
        >>> draws = posterior.sample(30, dims.LinLA())
    """

    name: ClassVar[str] = "linla"
    measured: ClassVar[bool] = False
