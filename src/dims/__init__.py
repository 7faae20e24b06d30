"""dims: sample the minima of neural-network losses by dissipative Riemannian mechanics."""

from __future__ import annotations

import gc
from typing import Any

# Importing makes objects that all stay; looking for garbage among torch's own in between would
# take longer than the import itself.
_collecting = gc.isenabled()
gc.disable()
try:
    from dims.baselines import HmcWarning, deep_ensemble, hmc, last_layer, swag
    from dims.certificate import certify
    from dims.diagnostics import theorem_bounds
    from dims.draws import Draws, DrawsFileError, load
    from dims.dynamics import Dynamics, damped, dissipative, geodesic, gravitational
    from dims.engine import EngineError, Ray
    from dims.integrate import Path, integrate
    from dims.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
    from dims.loss_surface import LossSurface
    from dims.posterior import NotAMinimumWarning, Posterior, fit
    from dims.predictive import Predictive
    from dims.settle import settle
    from dims.solvers.dopri5 import Dopri5
    from dims.solvers.events import AtRest
    from dims.solvers.rattle import Rattle
    from dims.solvers.rows import Status
    from dims.store import StoreError, StoreWarning
    from dims.surface import Surface
finally:
    if _collecting:
        gc.enable()

__version__ = "0.1.0"

__all__ = [
    "AtRest",
    "Bernoulli",
    "Categorical",
    "DimsClassifier",
    "DimsRegressor",
    "Dopri5",
    "Draws",
    "DrawsFileError",
    "Dynamics",
    "EngineError",
    "Gaussian",
    "HmcWarning",
    "Likelihood",
    "LossSurface",
    "NotAMinimumWarning",
    "Path",
    "Posterior",
    "Predictive",
    "Rattle",
    "Ray",
    "Status",
    "StoreError",
    "StoreWarning",
    "Surface",
    "certify",
    "damped",
    "deep_ensemble",
    "dissipative",
    "fit",
    "geodesic",
    "gravitational",
    "hmc",
    "integrate",
    "last_layer",
    "load",
    "settle",
    "swag",
    "theorem_bounds",
]


def __getattr__(name: str) -> Any:
    """The scikit-learn estimators are imported when asked for; scikit-learn is an extra."""
    if name in ("DimsClassifier", "DimsRegressor"):
        from dims import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'dims' has no attribute {name!r}")
