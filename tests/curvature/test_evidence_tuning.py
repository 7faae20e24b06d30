"""Tuned prior precision and noise: the best of a fine grid, stationary, within bounds."""

from __future__ import annotations

import copy
import functools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cases import diagonal
from dims.curvature import fit_curvature
from dims.curvature.evidence import EvidenceFit, log_marginal_likelihood, tune_evidence
from dims.errors import EvidenceWarning, IndefiniteHessianWarning
from dims.model.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from dims.surface.loss import LossSurface

STRUCTURES = ("full", "diagonal", "low_rank", "kronecker")


@functools.cache
def network_surface(likelihood: Likelihood, outputs: int) -> LossSurface:
    """A small network, trained until its data are explained about right."""
    torch.manual_seed(2)
    inputs = torch.randn(40, 3)
    signal = torch.stack([torch.sin(2 * inputs[:, 0]), inputs[:, 1], inputs[:, 2] ** 2], -1)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, outputs)).double()
    noisy = signal[:, :outputs] + 0.3 * torch.randn(40, outputs)
    if isinstance(likelihood, Gaussian):
        targets = noisy
    else:
        targets = (noisy[:, 0] > 0).long() if outputs == 1 else noisy.argmax(-1)
    surface = LossSurface(model, (inputs, targets), likelihood, 0.1)
    theta = surface.initial.unsqueeze(0)
    for _ in range(300):
        theta = theta - 0.003 * surface.value_and_grad(theta)[1]
    trained = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, outputs)).double()
    nn.utils.vector_to_parameters(theta[0], trained.parameters())
    return LossSurface(trained, (inputs, targets), likelihood, 0.1)


def evidence_on_grid(
    surface: LossSurface, matrix: Tensor, deltas: Tensor, noises: Tensor
) -> Tensor:
    """log p(D) for each δ (rows) and σ (columns), from the eigenvalues of the likelihood's H."""
    theta, targets = surface.initial, surface.data.targets
    outputs = surface.predict(theta.unsqueeze(0), surface.data.inputs)[0]
    scale = torch.ones_like(noises)
    if isinstance(surface.likelihood, Gaussian):
        scale = (surface.likelihood.noise_std / noises) ** 2
        errors = (outputs - targets).square().sum() / (2 * noises**2)
        misfit = errors + targets.numel() * (noises * math.sqrt(2 * math.pi)).log()
    elif isinstance(surface.likelihood, Bernoulli):
        misfit = functional.binary_cross_entropy_with_logits(
            outputs[:, 0], targets, reduction="sum"
        )
    else:
        misfit = functional.cross_entropy(outputs, targets, reduction="sum")
    values = torch.linalg.eigvalsh(matrix).clamp(min=0)
    precisions = values * scale[:, None] + deltas[:, None, None]
    rows = deltas.unsqueeze(-1)
    prior = 0.5 * surface.size * rows.log() - 0.5 * rows * theta.square().sum()
    return prior - misfit - 0.5 * precisions.log().sum(-1)


KINDS = [(Gaussian(0.5), 2), (Bernoulli(), 1), (Categorical(), 3)]


@pytest.mark.parametrize(("kind", "structure"), diagonal(KINDS, list(STRUCTURES)))
def test_tuned_values_are_the_best_of_a_fine_grid(
    kind: tuple[Likelihood, int], structure: str
) -> None:
    likelihood, outputs = kind
    surface = network_surface(likelihood, outputs)
    theta = surface.initial
    curvature = fit_curvature(surface, theta, structure, rank=12)
    fit = tune_evidence(surface, theta, curvature)
    assert fit.converged
    assert fit.at_bound == ()
    deltas = torch.logspace(-3, 2, 501).double()
    noises = torch.logspace(-1.5, 0.5, 401).double() if fit.noise_std else torch.ones(1).double()
    grid = evidence_on_grid(surface, curvature.dense(), deltas, noises)
    row, column = divmod(int(grid.argmax()), len(noises))
    assert 0 <= fit.log_marginal_likelihood - float(grid.max()) < 0.01
    assert isinstance(fit.prior_precision, float)
    assert abs(math.log(fit.prior_precision / deltas[row])) < math.log(10) * 0.011
    if fit.noise_std is None:
        assert surface.likelihood.task == "classification"
    else:
        assert abs(math.log(fit.noise_std / noises[column])) < math.log(10) * 0.006
    again = log_marginal_likelihood(surface, theta, curvature, fit.prior_precision, fit.noise_std)
    assert fit.log_marginal_likelihood == again


@pytest.mark.parametrize(("structure", "groups"), diagonal(list(STRUCTURES), ["layer", "tensor"]))
def test_groups_are_at_a_stationary_point_above_the_scalar_optimum(
    structure: str, groups: str
) -> None:
    surface = network_surface(Gaussian(0.5), 2)
    theta = surface.initial
    curvature = fit_curvature(surface, theta, structure, rank=12)
    scalar = tune_evidence(surface, theta, curvature)
    fit = tune_evidence(surface, theta, curvature, prior=groups)
    assert fit.converged
    assert fit.log_marginal_likelihood > scalar.log_marginal_likelihood
    prior = fit.prior_precision
    assert isinstance(prior, Tensor)
    assert prior.shape == (surface.size,)
    places = list(surface.vector.slices().values())
    if groups == "layer":
        places = [slice(places[0].start, places[1].stop), slice(places[2].start, places[3].stop)]
    assert len(prior.unique()) == len(places)
    for place in places:
        for factor in (0.97, 1.03):
            moved = prior.clone()
            moved[place] *= factor
            value = log_marginal_likelihood(surface, theta, curvature, moved, fit.noise_std)
            assert value < fit.log_marginal_likelihood


def test_a_fixed_prior_leaves_the_noise_to_tune_and_the_other_way_round() -> None:
    surface = network_surface(Gaussian(0.5), 2)
    theta = surface.initial
    curvature = fit_curvature(surface, theta)
    noise_only = tune_evidence(surface, theta, curvature, prior="fixed")
    assert noise_only.prior_precision == pytest.approx(0.1)
    assert noise_only.noise_std != pytest.approx(0.5, rel=1e-3)
    prior_only = tune_evidence(surface, theta, curvature, tune_noise=False)
    assert prior_only.noise_std == 0.5
    both = tune_evidence(surface, theta, curvature)
    assert both.log_marginal_likelihood > noise_only.log_marginal_likelihood
    assert both.log_marginal_likelihood > prior_only.log_marginal_likelihood
    with pytest.raises(ValueError, match="nothing is left"):
        tune_evidence(surface, theta, curvature, prior="fixed", tune_noise=False)


def test_the_answer_does_not_depend_on_the_start() -> None:
    """Neither on the prior nor on the noise of the surface that the curvature was fitted with."""
    surface = network_surface(Gaussian(0.5), 2)
    theta = surface.initial
    other = surface.with_settings(likelihood=Gaussian(5.0), prior_precision=40.0)
    fits = [tune_evidence(s, theta, fit_curvature(s, theta)) for s in (surface, other)]
    assert fits[0].prior_precision == pytest.approx(fits[1].prior_precision, rel=1e-4)
    assert fits[0].noise_std == pytest.approx(fits[1].noise_std, rel=1e-4)


def test_float32_agrees_with_float64() -> None:
    wide = network_surface(Gaussian(0.5), 2)
    theta = wide.initial
    narrow = LossSurface(
        copy.deepcopy(wide.module).requires_grad_().float(), wide.data, Gaussian(0.5), 0.1
    )
    fits = [tune_evidence(s, s.initial, fit_curvature(s, s.initial)) for s in (wide, narrow)]
    assert theta.dtype == torch.float64
    assert narrow.initial.dtype == torch.float32
    assert fits[0].prior_precision == pytest.approx(fits[1].prior_precision, rel=1e-3)
    assert fits[0].log_marginal_likelihood == pytest.approx(
        fits[1].log_marginal_likelihood, rel=1e-5
    )


def test_a_bound_is_reported() -> None:
    surface = network_surface(Gaussian(0.5), 2)
    curvature = fit_curvature(surface, surface.initial)
    with pytest.warns(EvidenceWarning, match="noise_std ended at a bound"):
        fit = tune_evidence(surface, surface.initial, curvature, noise_bounds=(2.0, 10.0))
    assert fit.at_bound == ("noise_std",)
    assert fit.noise_std == pytest.approx(2.0)
    assert fit.converged
    zero = torch.zeros_like(surface.initial)  # θ = 0 is best explained by an infinite precision
    with pytest.warns(EvidenceWarning, match="prior_precision"):
        fit = tune_evidence(surface, zero, fit_curvature(surface, zero), tune_noise=False)
    assert fit.prior_precision == pytest.approx(1e6)


def test_too_few_iterations_are_reported() -> None:
    surface = network_surface(Gaussian(0.5), 2)
    curvature = fit_curvature(surface, surface.initial)
    with pytest.warns(EvidenceWarning, match="no maximum"):
        fit = tune_evidence(surface, surface.initial, curvature, max_iterations=1)
    assert not fit.converged


def test_an_indefinite_hessian_is_tuned_by_its_absolute_value() -> None:
    surface = network_surface(Gaussian(0.5), 2)
    theta = surface.initial + 0.5  # far from a minimum
    curvature = fit_curvature(surface, theta, "full", "hessian")
    assert torch.linalg.eigvalsh(curvature.dense()).min() < -10
    with pytest.warns(IndefiniteHessianWarning):
        fit = tune_evidence(surface, theta, curvature)
    expected = tune_evidence(surface, theta, curvature.absolute())
    assert isinstance(fit, EvidenceFit)
    assert fit.prior_precision == pytest.approx(expected.prior_precision)
    assert fit.noise_std == pytest.approx(expected.noise_std)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prior": "per-layer"}, "scalar, layer, tensor, fixed"),
        ({"prior_bounds": (1.0, 0.5)}, "prior_bounds"),
        ({"noise_bounds": (0.0, 0.5)}, "noise_bounds"),
    ],
)
def test_arguments_are_checked(arguments: dict, words: str) -> None:
    surface = network_surface(Gaussian(0.5), 2)
    with pytest.raises(ValueError, match=words):
        tune_evidence(
            surface, surface.initial, fit_curvature(surface, surface.initial), **arguments
        )


def test_noise_is_for_gaussian_likelihoods_and_positive() -> None:
    for surface, noise in (
        (network_surface(Categorical(), 3), 0.5),
        (network_surface(Gaussian(0.5), 2), -1.0),
    ):
        curvature = fit_curvature(surface, surface.initial)
        with pytest.raises(ValueError, match="noise_std"):
            log_marginal_likelihood(surface, surface.initial, curvature, noise_std=noise)
