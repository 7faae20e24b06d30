"""How a network's outputs explain the targets: the `Likelihood` contract and four of them."""

from __future__ import annotations

from dims.model.likelihoods.base import *
from dims.model.likelihoods.base import __all__ as _base
from dims.model.likelihoods.heteroscedastic import *
from dims.model.likelihoods.heteroscedastic import __all__ as _heteroscedastic
from dims.model.likelihoods.shipped import *
from dims.model.likelihoods.shipped import __all__ as _shipped

__all__ = [*_base, *_heteroscedastic, *_shipped]
