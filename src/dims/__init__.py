"""dims: sample the minima of neural-network losses by dissipative Riemannian mechanics."""

from __future__ import annotations

import gc
import sys
from typing import Any

# Importing makes objects that all stay; looking for garbage among torch's own in between would
# take longer than the import itself.
_collecting = gc.isenabled()
gc.disable()
try:
    from dims.baselines import HmcWarning, deep_ensemble, hmc, last_layer, swag
    from dims.mechanics.diagnostics import theorem_bounds
    from dims.mechanics.dynamics import Dynamics, damped, dissipative, geodesic, gravitational
    from dims.mechanics.events import AtRest
    from dims.mechanics.integrate import Path, integrate
    from dims.mechanics.solvers.dopri5 import Dopri5
    from dims.mechanics.solvers.rattle import Rattle
    from dims.mechanics.solvers.rows import Status
    from dims.model.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
    from dims.prediction import metrics
    from dims.prediction.predictive import Predictive
    from dims.sampling.certificate import certify
    from dims.sampling.draws import Draws, DrawsFileError, load
    from dims.sampling.engine import EngineError, Ray
    from dims.sampling.posterior import NotAMinimumWarning, Posterior, fit
    from dims.sampling.settle import settle
    from dims.sampling.store import StoreError, StoreWarning
    from dims.surface.function import Surface
    from dims.surface.loss import LossSurface
finally:
    if _collecting:
        gc.enable()

__version__ = "0.1.0"

# A public module whose home is a room further in: `from dims.metrics import accuracy` works too.
sys.modules["dims.metrics"] = metrics

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
    "metrics",
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
