"""What a user would pick instead: each returns `Draws` over the same kind of surface.

Deep ensembles, MC dropout, SWAG, last-layer Laplace and temperature scaling; a long HMC run, the
ground truth of small problems; and `compare`, which runs all of them beside DiMS.
"""

from __future__ import annotations

from dims.baselines.compare import compare, read_comparison
from dims.baselines.comparison import Comparison
from dims.baselines.ensemble import deep_ensemble
from dims.baselines.hmc import hmc
from dims.baselines.last_layer import last_layer
from dims.baselines.mc_dropout import mc_dropout
from dims.baselines.swag import swag
from dims.baselines.temperature import temperature_scaling
from dims.baselines.training import train_ensemble
from dims.errors import HmcWarning

__all__ = ["Comparison", "HmcWarning", "compare", "deep_ensemble", "hmc", "last_layer"]
__all__ += ["mc_dropout", "read_comparison", "swag"]
__all__ += ["temperature_scaling", "train_ensemble"]
