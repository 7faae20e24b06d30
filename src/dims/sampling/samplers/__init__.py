"""Samplers: one file each, and the same perturbations ε for all.

`LA` returns θ* + ε, `LinLA` reads the same points with the linearised network, `RLA` follows the
geodesic of ε to t = 1, and `DiMS` follows ε until its energy is spent.
"""

from __future__ import annotations

from dims.sampling.samplers.base import Sampler, Start
from dims.sampling.samplers.choose import SAMPLERS, Motion, choose_sampler
from dims.sampling.samplers.dims import DiMS
from dims.sampling.samplers.la import LA
from dims.sampling.samplers.linla import LinLA
from dims.sampling.samplers.rla import RLA
from dims.sampling.samplers.trajectory import TrajectorySampler

__all__ = ["LA", "RLA", "SAMPLERS", "DiMS", "LinLA"]
__all__ += ["Motion", "Sampler", "Start", "TrajectorySampler", "choose_sampler"]
