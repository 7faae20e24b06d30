"""dims: sample the minima of neural-network losses by dissipative Riemannian mechanics."""

from dims.draws import Draws, DrawsFileError, load
from dims.dynamics import Dynamics, damped, dissipative, geodesic, gravitational
from dims.integrate import Path, integrate
from dims.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from dims.loss_surface import LossSurface
from dims.predictive import Predictive
from dims.solvers.dopri5 import Dopri5
from dims.solvers.events import AtRest
from dims.solvers.rattle import Rattle
from dims.solvers.rows import Status
from dims.surface import Surface

__version__ = "0.1.0"

__all__ = [
    "AtRest",
    "Bernoulli",
    "Categorical",
    "Dopri5",
    "Draws",
    "DrawsFileError",
    "Dynamics",
    "Gaussian",
    "Likelihood",
    "LossSurface",
    "Path",
    "Predictive",
    "Rattle",
    "Status",
    "Surface",
    "damped",
    "dissipative",
    "geodesic",
    "gravitational",
    "integrate",
    "load",
]
