"""Curvature of the likelihood at θ*, and the Gaussian that it and a prior define.

curvature = fit_curvature(surface, theta, "full")      # once
precision = curvature.precision(prior_precision=1.0)   # cheap, for every prior
precision.sample(10), precision.log_determinant()
"""

from __future__ import annotations

from dims.curvature.base import Curvature, Kind, Precision
from dims.curvature.fit import STRUCTURES, fit_curvature
from dims.curvature.laplace_adapter import from_laplace

__all__ = ["STRUCTURES", "Curvature", "Kind", "Precision", "fit_curvature", "from_laplace"]
