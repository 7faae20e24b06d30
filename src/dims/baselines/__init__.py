"""What a user would pick instead: each returns `Draws` over the same kind of surface.

Deep ensemble, SWAG and last-layer Laplace; and a long HMC run, the ground truth of small problems.
"""

from __future__ import annotations

from dims.baselines.ensemble import deep_ensemble
from dims.baselines.hmc import hmc
from dims.baselines.last_layer import last_layer
from dims.baselines.swag import swag
from dims.errors import HmcWarning

__all__ = ["HmcWarning", "deep_ensemble", "hmc", "last_layer", "swag"]
