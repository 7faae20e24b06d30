"""`fit`: from a trained network to its posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from dims.curvature import Curvature, fit_curvature, from_laplace
from dims.curvature.evidence import (
    EvidenceFit,
    log_marginal_likelihood,
    tune_evidence,
    tuned_surface,
)
from dims.errors import renamed_arguments
from dims.model.checks_trained import warn_of_untrained
from dims.model.likelihoods import (
    Likelihood,
    given_noise,
    leaves_noise_open,
    with_noise,
    with_noise_per_output,
)
from dims.model.parameters import Selection
from dims.model.shapes import Vector
from dims.model.training_data import TrainingData
from dims.sampling.evidence_path import tune_at_minima
from dims.sampling.posterior import Posterior
from dims.sampling.progress import stage
from dims.sampling.refine import budget_of, warn_of_slope
from dims.sampling.refine import refine as walk_to_minimum
from dims.sampling.refit import held_out_rows, refitted
from dims.sampling.starts import with_others
from dims.surface.loss import LossSurface

__all__ = ["fit"]

AT_MINIMA = ("cautious", "leave_one_out", "minimum")
WALKS_ANYWAY = ("leave_one_out", "minimum")  # where prior and noise are given, too


@renamed_arguments(train_data="data")
def fit(
    model: nn.Module | Sequence[nn.Module],
    data: Any,
    likelihood: str | Likelihood,
    *,
    curvature: str | Any = "full",
    curvature_kind: str = "ggn",
    rank: int = 100,
    tune: bool | str | None = None,
    prior_precision: float | Tensor | None = None,
    noise_std: float | None = None,
    prior_structure: str = "scalar",
    effective_points: float | None = None,
    loss_scale: float = 1.0,
    refine: bool | int = False,
    parameters: Selection = None,
    validation: Any = None,
    refit: bool = False,
    progress: bool | Callable[[float], None] = True,
) -> Posterior:
    """Fit the Laplace posterior of a trained network, which also gives the start velocities.

    Args:
        model: The trained network, in eval mode; it is copied. Or a list: draws start from each.
        data: The training data: a pair (inputs, targets), a Dataset or a DataLoader.
        likelihood: "regression", "classification" or a `Likelihood` object.
        curvature: "full", "diagonal", "kronecker", "low_rank", or a fitted laplace-torch object.
        curvature_kind: "ggn" or "hessian".
        rank: Number of eigenpairs of "low_rank".
        tune: Chooses prior and noise: a bool, "cautious", "leave_one_out", "minimum" (choose.md).
        prior_precision: δ of the prior N(0, 1/δ), a number or a vector (K,).
        noise_std: σ of a regression; `Gaussian(σ)` gives it as well.
        prior_structure: What is tuned: one δ ("scalar"), one per "layer" or per "tensor".
        effective_points: Scale the likelihood to this many points; None: all of them.
        loss_scale: Factor on the whole loss, likelihood and prior.
        refine: Walk θ* to a minimum of this surface first: True, or the most gradients (10 000).
        parameters: Names, patterns, a predicate or `dims.last_blocks(model, 2)`; None: trainable.
        validation: Rows (x, y) that the network has never seen, to weigh it and its draws by.
        refit: Let the draws learn these rows as well, once they have chosen the weights.
        progress: Show which stage takes long, or a function to call with the part of refining done.

    Returns:
        The posterior at θ*, with `sample`, `perturbations` and the evidence.

    Raises:
        ValueError: An argument does not fit the model or another argument.

    Example:
        >>> posterior = dims.fit(model, (x, y), "regression")
    """
    chosen = _Chosen(curvature, curvature_kind, rank, progress)
    tune = chosen.tuning(tune)
    prior_precision, noise_std = _adopted(chosen, tune, likelihood, prior_precision, noise_std)
    opened = (prior_structure if prior_precision is None else None, noise_std is None)
    model, *others = _networks(model, chosen.curvature, parameters)
    loss = prior_precision, noise_std, effective_points, loss_scale
    surface = _surface(model, data, likelihood, parameters, *loss)
    rows = held_out_rows(validation, surface, refit, data)
    made = _posterior(surface, chosen, tune, *opened, budget_of(refine), others, rows)
    return refitted(made, model, parameters, chosen.quietly) if refit else made


def _networks(
    model: nn.Module | Sequence[nn.Module], curvature: str | Any, parameters: Selection
) -> list[nn.Module]:
    """The given network, or the given ones."""
    if isinstance(model, nn.Module) or not isinstance(model, Sequence):
        return [model]  # what is no module is refused by the surface
    if not model or not all(isinstance(each, nn.Module) for each in model):
        raise TypeError("model: expected a trained network, or a list of some")
    for name, given in (("curvature", not isinstance(curvature, str)), ("parameters", parameters)):
        if len(model) > 1 and given:
            raise ValueError(f"{name}: it belongs to one network; give one, or leave {name} out")
    return list(model)


class _Chosen(NamedTuple):
    """The curvature that was asked for: a structure by name, or a fitted laplace-torch object."""

    curvature: str | Any
    kind: str
    rank: int
    progress: bool | Callable[[float], None]

    def tuning(self, asked: bool | str | None) -> bool | str:
        usual = "cautious" if isinstance(self.curvature, str) and self.curvature == "full" else True
        return usual if asked is None else asked

    def at(self, surface: LossSurface, theta: Vector) -> Curvature:
        with stage(self.progress, "curvature"):
            return self.quietly(surface, theta)

    def quietly(self, surface: LossSurface, theta: Vector) -> Curvature:
        """Without a line of its own: where it is one of many."""
        if isinstance(self.curvature, str):
            return fit_curvature(surface, theta, self.curvature, self.kind, self.rank)
        return from_laplace(self.curvature, surface, theta)


def _surface(
    model: nn.Module,
    data: Any,
    likelihood: str | Likelihood,
    parameters: Selection,
    prior_precision: float | Tensor | None,
    noise_std: float | None,
    effective_points: float | None,
    loss_scale: float,
) -> LossSurface:
    """With a prior of 1 until one is tuned."""
    prior = 1.0 if prior_precision is None else prior_precision
    noisy = with_noise(likelihood, noise_std)
    surface = LossSurface(
        model,
        data,
        noisy,
        prior,
        effective_points=effective_points,
        loss_scale=loss_scale,
        parameters=parameters,
    )
    outputs = surface.outputs_on_data(surface.initial.unsqueeze(0))[0]
    # The caller of `fit`, which is decorated.
    warn_of_untrained(surface.likelihood, outputs, surface.data.targets, stacklevel=4)
    return surface


def _posterior(
    surface: LossSurface,
    chosen: _Chosen,
    tune: bool | str,
    open_prior: str | None,
    open_noise: bool,
    refine: int,
    others: Sequence[nn.Module],
    rows: TrainingData | None,
) -> Posterior:
    """Curvature, evidence and θ* of a surface; `open_prior` is the structure of a δ to tune."""
    _check_moves(chosen, tune, refine)
    theta: Vector = surface.initial
    evidence: EvidenceFit | None = None
    refinement = None
    open_noise = open_noise and surface.likelihood.noise_std is not None
    if open_prior is None and not open_noise and tune not in WALKS_ANYWAY:
        tune = False
    if tune and open_noise and isinstance(chosen.curvature, str):
        surface = _with_noise_per_output(surface, theta)
    opened: tuple[Any, ...] = (open_prior or "fixed", open_noise)
    if isinstance(tune, str):
        noisy = surface.likelihood.noise_std is not None
        left_out = tune == "leave_one_out" or (tune == "cautious" and not noisy)
        score = "leave_one_out" if left_out else "log_marginal_likelihood"
        opened = (*opened, score, tune == "cautious")
        with stage(chosen.progress, "tuning prior and noise"):
            evidence, best = tune_at_minima(surface, theta, chosen.quietly, *opened)
        surface, theta, fitted = best.surface, best.theta, best.curvature
    else:
        fitted = chosen.at(surface, theta)
        if tune:
            with stage(chosen.progress, "tuning prior and noise"):
                evidence = tune_evidence(
                    surface, theta, fitted, prior=opened[0], tune_noise=opened[1]
                )
            surface = tuned_surface(surface, evidence)
    if refine:
        refinement = walk_to_minimum(surface, theta, refine, chosen.progress)
        theta = refinement.positions[0]
        fitted = chosen.at(surface, theta)
    _, gradient = surface.value_and_grad(theta.unsqueeze(0))
    log_evidence = log_marginal_likelihood(surface, theta, fitted)
    posterior = Posterior(surface, theta, fitted, gradient[0], log_evidence, evidence, refinement)
    if refine or not isinstance(tune, str):  # its walk went as far as was good for predictions
        # The caller of `fit`, which is decorated.
        warn_of_slope(posterior.gradient_norm, refinement, tune is True, stacklevel=4)
    return replace(with_others(posterior, others, chosen.quietly, refine), validation=rows)


def _with_noise_per_output(surface: LossSurface, theta: Vector) -> LossSurface:
    """Several outputs may have noises of different sizes: each gets that of its residuals."""
    if surface.outputs == 1:
        return surface
    outputs = surface.outputs_on_data(theta.unsqueeze(0))[0]
    own = with_noise_per_output(surface.likelihood, outputs, surface.data.targets)
    return surface.with_settings(likelihood=own)


def _check_moves(chosen: _Chosen, tune: bool | str, refine: int) -> None:
    if not isinstance(tune, bool) and tune not in AT_MINIMA:
        known = ", ".join(f'"{name}"' for name in AT_MINIMA)
        raise ValueError(f"tune: expected True, False or one of {known}, got {tune!r}")
    moves = f'tune="{tune}"' if isinstance(tune, str) else "refine"
    if (refine or isinstance(tune, str)) and not isinstance(chosen.curvature, str):
        raise ValueError(
            f"{moves}: it moves θ*, and a fitted laplace-torch object belongs to the old one; give "
            "one of the two"
        )


def _adopted(
    chosen: _Chosen,
    tune: bool | str,
    likelihood: str | Likelihood,
    prior_precision: float | Tensor | None,
    noise_std: float | None,
) -> tuple[float | Tensor | None, float | None]:
    """The given prior and noise, or those of a laplace-torch object where nothing is tuned."""
    fitted = chosen.curvature
    if tune or isinstance(fitted, str):
        return prior_precision, given_noise(likelihood, noise_std)
    if prior_precision is None:
        diagonal = fitted.prior_precision_diag.detach()
        prior_precision = float(diagonal[0]) if (diagonal == diagonal[0]).all() else diagonal
    if leaves_noise_open(likelihood, noise_std):
        noise_std = float(fitted.sigma_noise)
    return prior_precision, given_noise(likelihood, noise_std)
