"""How a network's outputs explain the targets: the `Likelihood` contract and what dims brings."""

from __future__ import annotations

from dims.model.likelihoods.base import *
from dims.model.likelihoods.base import __all__ as _base
from dims.model.likelihoods.counts import *
from dims.model.likelihoods.counts import __all__ as _counts
from dims.model.likelihoods.heteroscedastic import *
from dims.model.likelihoods.heteroscedastic import __all__ as _heteroscedastic
from dims.model.likelihoods.ordinal import *
from dims.model.likelihoods.ordinal import __all__ as _ordinal
from dims.model.likelihoods.per_output import *
from dims.model.likelihoods.per_output import __all__ as _per_output
from dims.model.likelihoods.positions import *
from dims.model.likelihoods.positions import __all__ as _positions
from dims.model.likelihoods.shipped import *
from dims.model.likelihoods.shipped import __all__ as _shipped
from dims.model.likelihoods.student import *
from dims.model.likelihoods.student import __all__ as _student

__all__ = [*_base, *_shipped, *_heteroscedastic, *_per_output, *_student]
__all__ += [*_counts, *_ordinal, *_positions]
