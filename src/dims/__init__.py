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
    from dims import errors
    from dims.baselines import (
        Comparison,
        compare,
        deep_ensemble,
        hmc,
        last_layer,
        mc_dropout,
        swag,
        temperature_scaling,
        train_ensemble,
    )
    from dims.errors import *
    from dims.mechanics.diagnostics import theorem_bounds
    from dims.mechanics.dynamics import (
        ConstantFriction,
        Dynamics,
        Friction,
        SpeedFriction,
        damped,
        dissipative,
        geodesic,
        gravitational,
    )
    from dims.mechanics.events import AtRest
    from dims.mechanics.integrate import Trajectories, integrate
    from dims.mechanics.metric.moving import MovingMetric
    from dims.mechanics.solvers.base import RowState, Solver
    from dims.mechanics.solvers.dopri5 import Dopri5
    from dims.mechanics.solvers.rattle import Rattle
    from dims.mechanics.status import Status
    from dims.model.augmentation import augmented
    from dims.model.likelihoods import (
        Bernoulli,
        Categorical,
        Gaussian,
        GaussianPerOutput,
        HeteroscedasticGaussian,
        Likelihood,
        MultiLabelBernoulli,
        Ordinal,
        Poisson,
        PositionCategorical,
        StudentT,
    )
    from dims.model.logits import with_logits
    from dims.model.parameters import last_blocks
    from dims.prediction import metrics
    from dims.prediction.ordinal import OrdinalPredictive
    from dims.prediction.positions import PositionPredictive
    from dims.prediction.predictive import (
        ClassificationPredictive,
        DistributionPredictive,
        Predictive,
        RegressionPredictive,
    )
    from dims.sampling.certificate import certify
    from dims.sampling.draws import Draws
    from dims.sampling.engine import Ray
    from dims.sampling.fit import fit
    from dims.sampling.posterior import Posterior
    from dims.sampling.samplers import LA, RLA, DiMS, LinLA, Sampler
    from dims.sampling.settle import settle
    from dims.sampling.store.load import load
    from dims.surface.function import Surface
    from dims.surface.loss import LossSurface
finally:
    if _collecting:
        gc.enable()

__version__ = "0.1.0"

# A public module whose home is a room further in: `from dims.metrics import accuracy` works too.
sys.modules["dims.metrics"] = metrics

__all__ = [
    *errors.__all__,
    "LA",
    "RLA",
    "AtRest",
    "Bernoulli",
    "Categorical",
    "ClassificationPredictive",
    "Comparison",
    "ConstantFriction",
    "DiMS",
    "DimsClassifier",
    "DimsRegressor",
    "DistributionPredictive",
    "Dopri5",
    "Draws",
    "Dynamics",
    "Friction",
    "Gaussian",
    "GaussianPerOutput",
    "HeteroscedasticGaussian",
    "Likelihood",
    "LinLA",
    "LossSurface",
    "MovingMetric",
    "MultiLabelBernoulli",
    "Ordinal",
    "OrdinalPredictive",
    "Poisson",
    "PositionCategorical",
    "PositionPredictive",
    "Posterior",
    "Predictive",
    "Rattle",
    "Ray",
    "RegressionPredictive",
    "RowState",
    "Sampler",
    "Solver",
    "SpeedFriction",
    "Status",
    "StudentT",
    "Surface",
    "Trajectories",
    "augmented",
    "certify",
    "compare",
    "damped",
    "deep_ensemble",
    "dissipative",
    "fit",
    "geodesic",
    "gravitational",
    "hmc",
    "integrate",
    "last_blocks",
    "last_layer",
    "load",
    "mc_dropout",
    "metrics",
    "settle",
    "swag",
    "temperature_scaling",
    "theorem_bounds",
    "train_ensemble",
    "with_logits",
]


# Old names, kept for one version: name -> (new name, value).
_RENAMED = {"Path": ("Trajectories", Trajectories)}


def __getattr__(name: str) -> Any:
    """Deprecated names, and the scikit-learn estimators, which are an extra."""
    if name in _RENAMED:
        new, value = _RENAMED[name]
        errors.warn_renamed(f"dims.{name}", f"dims.{new}")
        return value
    if name in ("DimsClassifier", "DimsRegressor"):
        from dims import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'dims' has no attribute {name!r}")
