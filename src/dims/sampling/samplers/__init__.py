"""The four samplers of the paper: one signature, the same velocity draws ε.

Laplace returns θ* + ε, the linearised one reads the same points with the linearised network,
Riemannian follows the geodesic of ε to t = 1, DiMS follows ε until its energy is spent.
"""

from __future__ import annotations

from dims.sampling.samplers.dissipative import Dissipative
from dims.sampling.samplers.laplace import Laplace
from dims.sampling.samplers.linearised import Linearised
from dims.sampling.samplers.riemannian import Riemannian
from dims.sampling.samplers.start import Moving, Sampler, Start, follow

__all__ = [
    "SAMPLERS",
    "Dissipative",
    "Laplace",
    "Linearised",
    "Moving",
    "Riemannian",
    "Sampler",
    "Start",
    "follow",
]

SAMPLERS: dict[str, type[Sampler]] = {
    "la": Laplace,
    "linla": Linearised,
    "rla": Riemannian,
    "dims": Dissipative,
}
