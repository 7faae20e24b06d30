"""Settings of an estimator that would only be refused after it has been trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dims.model.shapes import check_prior
from dims.sampling.samplers.choose import Motion, choose_sampler

if TYPE_CHECKING:
    from dims.estimators.base import DimsEstimator

__all__ = ["check_settings"]


def check_settings(estimator: DimsEstimator) -> None:
    """Make what draws will be made by, and the prior, to see whether that can be done."""
    forces = ("friction", "gravity", "max_time", "tolerance")
    motion = Motion(**{name: getattr(estimator, name) for name in forces})
    choose_sampler(estimator.method, motion, estimator.settle, estimator.certify)
    if estimator.prior_precision is not None:
        check_prior(estimator.prior_precision, 1, torch.zeros(1, dtype=torch.float64))
