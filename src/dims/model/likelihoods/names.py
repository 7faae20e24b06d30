"""The shortcuts "regression" and "classification", turned into likelihood objects."""

from __future__ import annotations

from collections.abc import Callable

from dims.model.likelihoods.base import Likelihood
from dims.model.likelihoods.shipped import Bernoulli, Categorical, Gaussian

__all__ = ["given_noise", "leaves_noise_open", "resolve_likelihood", "with_noise"]

# By the number of outputs.
SHORTCUTS: dict[str, Callable[[int], Likelihood]] = {
    "regression": lambda outputs: Gaussian(),
    "classification": lambda outputs: Bernoulli() if outputs == 1 else Categorical(),
}


def resolve_likelihood(likelihood: str | Likelihood, outputs: int) -> Likelihood:
    """Turn "regression" or "classification" into an object, by the number of outputs."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if not isinstance(likelihood, str) or likelihood not in SHORTCUTS:
        raise ValueError(
            f"likelihood: {likelihood!r} is unknown; give 'regression', 'classification' or a "
            "Likelihood object (dims.Gaussian, dims.Bernoulli, dims.Categorical)"
        )
    return SHORTCUTS[likelihood](outputs)


def given_noise(likelihood: str | Likelihood, noise_std: float | None) -> float | None:
    """σ where a user gave one, as a number or in an object; "regression" alone leaves it open."""
    if noise_std is None and isinstance(likelihood, Likelihood):
        return likelihood.noise_std
    return noise_std


def with_noise(likelihood: str | Likelihood, noise_std: float | None) -> str | Likelihood:
    """The likelihood with the given noise σ, as it is where none is given."""
    if noise_std is None:
        return likelihood
    return resolve_likelihood(likelihood, 2).with_noise(noise_std)


def leaves_noise_open(likelihood: str | Likelihood, noise_std: float | None) -> bool:
    """Whether there is a noise and the user gave none, neither as a number nor in an object."""
    if noise_std is not None or isinstance(likelihood, Likelihood):
        return False
    return resolve_likelihood(likelihood, 2).noise_std is not None
