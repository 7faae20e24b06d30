"""`fit`: from a trained network to its posterior."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, nn

from dims.curvature import Curvature, fit_curvature, from_laplace
from dims.curvature.evidence import (
    log_marginal_likelihood,
    tune_evidence,
    tuned_surface,
)
from dims.errors import NotAMinimumWarning, renamed_arguments
from dims.model.likelihoods import Gaussian, Likelihood, given_noise, with_noise
from dims.model.parameters import Selection
from dims.model.shapes import Vector
from dims.sampling.posterior import Posterior
from dims.sampling.settle import settle
from dims.surface.loss import LossSurface

__all__ = ["fit"]

STEEP = 1.0  # ‖g(θ*)‖ above this: the graph is steeper than 45° where sampling starts


@renamed_arguments(train_data="data")
def fit(
    model: nn.Module,
    data: Any,
    likelihood: str | Likelihood,
    *,
    curvature: str | Any = "full",
    curvature_kind: str = "ggn",
    rank: int = 100,
    tune: bool = True,
    prior_precision: float | Tensor | None = None,
    noise_std: float | None = None,
    prior_structure: str = "scalar",
    effective_points: float | None = None,
    loss_scale: float = 1.0,
    refine: bool = False,
    parameters: Selection = None,
) -> Posterior:
    """Fit the Laplace posterior of a trained network, which also gives the start velocities.

    `curvature` is "full", "diagonal", "kronecker", "low_rank" or a fitted laplace-torch object.
    With `tune`, prior precision (and noise) maximise the marginal likelihood, but for values that
    are given, also as `Gaussian(σ)`; without it the given values stand (1 where none is given).
    `refine` walks θ* to a minimum of the surface that is sampled, which differs from the one it
    was trained on.
    """
    if not tune and not isinstance(curvature, str):
        prior_precision, noise_std = _adopted(curvature, likelihood, prior_precision, noise_std)
    noise_std = given_noise(likelihood, noise_std)
    likelihood = with_noise(likelihood, noise_std)
    surface = LossSurface(
        model,
        data,
        likelihood,
        1.0 if prior_precision is None else prior_precision,
        effective_points=effective_points,
        loss_scale=loss_scale,
        parameters=parameters,
    )
    if refine and not isinstance(curvature, str):
        raise ValueError(
            "refine: it moves θ*, and a fitted laplace-torch object belongs to the old one; give "
            "one of the two"
        )
    theta = surface.initial
    evidence = None
    fitted = _fit_curvature(surface, theta, curvature, curvature_kind, rank)
    noise_known = noise_std is not None or not isinstance(surface.likelihood, Gaussian)
    if tune and not (prior_precision is not None and noise_known):
        evidence = tune_evidence(
            surface,
            theta,
            fitted,
            prior="fixed" if prior_precision is not None else prior_structure,
            tune_noise=noise_std is None,
        )
        surface = tuned_surface(surface, evidence)
    if refine:
        theta = settle(surface, theta.unsqueeze(0), method="full").positions[0]
        fitted = _fit_curvature(surface, theta, curvature, curvature_kind, rank)
    _, gradient = surface.value_and_grad(theta.unsqueeze(0))
    posterior = Posterior(
        surface,
        theta,
        fitted,
        gradient[0],
        log_marginal_likelihood(surface, theta, fitted),
        evidence,
    )
    if posterior.gradient_norm > STEEP:
        warnings.warn(
            f"θ* is no minimum of the sampled surface: its gradient norm is "
            f"{posterior.gradient_norm:.3g} (training minimised another loss, or stopped early). "
            "Draws start on a slope; refine=True walks to a minimum first",
            NotAMinimumWarning,
            stacklevel=3,
        )
    return posterior


def _adopted(
    fitted: Any,
    likelihood: str | Likelihood,
    prior_precision: float | Tensor | None,
    noise_std: float | None,
) -> tuple[float | Tensor | None, float | None]:
    """Prior and noise of a laplace-torch object where none are given: its posterior is meant."""
    if prior_precision is None:
        diagonal = fitted.prior_precision_diag.detach()
        prior_precision = float(diagonal[0]) if (diagonal == diagonal[0]).all() else diagonal
    if noise_std is None and likelihood == "regression":
        noise_std = float(fitted.sigma_noise)
    return prior_precision, noise_std


def _fit_curvature(
    surface: LossSurface, theta: Vector, curvature: str | Any, kind: str, rank: int
) -> Curvature:
    if isinstance(curvature, str):
        return fit_curvature(surface, theta, curvature, kind, rank)
    return from_laplace(curvature, surface, theta)
