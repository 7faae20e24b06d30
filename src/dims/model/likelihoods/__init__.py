"""How a network's outputs explain the targets: the `Likelihood` contract and three of them."""

from __future__ import annotations

from dims.model.likelihoods.base import Likelihood, likelihood_class
from dims.model.likelihoods.names import (
    given_noise,
    leaves_noise_open,
    resolve_likelihood,
    with_noise,
)
from dims.model.likelihoods.shipped import Bernoulli, Categorical, Gaussian

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Likelihood",
    "given_noise",
    "leaves_noise_open",
    "likelihood_class",
    "resolve_likelihood",
    "with_noise",
]
