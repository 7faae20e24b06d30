"""The noise of a regressor: one for all rows, or one that depends on the row."""

from __future__ import annotations

import math

from torch import Tensor

from dims.estimators.given import Checked
from dims.model.likelihoods import HeteroscedasticGaussian
from dims.model.likelihoods.per_output import GaussianPerOutput
from dims.sampling.leave_one_out import leave_one_out
from dims.sampling.posterior import Posterior

__all__ = ["NOISES", "SMALLEST", "by_input", "is_better"]

NOISES = ("constant", "input")
SMALLEST = 0.5  # of the one noise: a noise that depends on the row is nowhere below
SIGNIFICANT = 2  # standard errors


def by_input(given: Checked, constant: Posterior) -> Checked:
    """The same rows for a network that gives the noise as well as the mean.

    Args:
        given: The rows, for a network of one noise.
        constant: The posterior of that network.
    """
    likelihood = constant.surface.likelihood
    noise = likelihood.noise_std
    if isinstance(likelihood, GaussianPerOutput):
        noise = min(likelihood.noise_stds)
    assert noise is not None
    task = HeteroscedasticGaussian(SMALLEST * float(noise))
    return given._replace(outputs=2 * given.outputs, task=task)


def is_better(posterior: Posterior, constant: Posterior) -> bool:
    """Whether it predicts left-out rows significantly better than the one with a constant noise.

    log p(yᵢ | the other rows) under the prior and noise that each of them has chosen.
    """
    ours, theirs = (_left_out(each) for each in (posterior, constant))
    gain = (ours - theirs).double()
    return float(gain.mean()) > SIGNIFICANT * float(gain.std()) / math.sqrt(len(gain))


def _left_out(posterior: Posterior) -> Tensor:
    theta, curvature = posterior.map_parameters, posterior.curvature
    return leave_one_out(posterior.surface, theta, curvature).points
