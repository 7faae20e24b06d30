"""Full, diagonal and low-rank curvature against dense second derivatives of the plain module."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from curvature_surfaces import LIKELIHOODS, NETWORKS, dense_ggn, dense_hessian, surface_of
from torch import nn

from cases import diagonal
from dims.curvature import fit_curvature
from dims.curvature.full import _square_roots
from dims.model.likelihoods import Gaussian
from dims.surface.loss import LossSurface

ORACLES = {"ggn": dense_ggn, "hessian": dense_hessian}


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize(
    ("name", "likelihood", "kind"), diagonal(list(NETWORKS), list(LIKELIHOODS), ["ggn", "hessian"])
)
def test_every_structure_is_exact_in_float64(name: str, likelihood: str, kind: str) -> None:
    surface = surface_of(name, likelihood)
    theta = surface.initial + 0.3
    expected = ORACLES[kind](surface, theta)
    assert relative_error(fit_curvature(surface, theta, "full", kind).dense(), expected) < 1e-12
    low_rank = fit_curvature(surface, theta, "low_rank", kind)  # rank 100 is all of it
    assert relative_error(low_rank.dense(), expected) < 1e-10
    diagonal = fit_curvature(surface, theta, "diagonal", kind).dense()
    assert relative_error(diagonal, expected.diagonal().diag()) < 1e-12


@pytest.mark.parametrize(
    ("structure", "kind"), diagonal(["full", "diagonal", "low_rank"], ["ggn", "hessian"])
)
def test_float32_stays_float32_and_close(structure: str, kind: str) -> None:
    surface = surface_of("cnn", "categorical", torch.float32)
    curvature = fit_curvature(surface, surface.initial, structure, kind)
    expected = ORACLES[kind](surface, surface.initial)
    if structure == "diagonal":
        expected = expected.diagonal().diag()
    assert curvature.dense().dtype == torch.float32
    assert relative_error(curvature.dense(), expected) < 1e-5
    precision = curvature.precision(50.0)
    noise = torch.randn(3, surface.size)
    assert precision.color(noise).dtype == precision.solve(noise).dtype == torch.float32


@pytest.mark.parametrize(
    ("structure", "kind"), diagonal(["full", "diagonal", "low_rank"], ["ggn", "hessian"])
)
def test_a_tiny_memory_budget_changes_nothing(structure: str, kind: str) -> None:
    surface = surface_of("mlp", "categorical")
    small = surface_of("mlp", "categorical", memory_budget=4096)
    one, other = (
        fit_curvature(s, surface.initial, structure, kind).dense() for s in (surface, small)
    )
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("structure", ["full", "diagonal", "low_rank", "kronecker"])
def test_likelihood_scale_is_inside_and_the_prior_is_not(structure: str) -> None:
    plain = surface_of("mlp", "gaussian")
    scaled = surface_of("mlp", "gaussian", effective_points=7.0, loss_scale=3.0)
    fits = [fit_curvature(s, plain.initial, structure) for s in (plain, scaled)]
    torch.testing.assert_close(fits[1].dense(), 1.5 * fits[0].dense(), rtol=1e-9, atol=1e-9)
    vector = torch.ones(1, plain.size, dtype=torch.float64)
    matrix = fits[1].dense() + 3.0 * 0.2 * torch.eye(plain.size, dtype=torch.float64)  # c·δ
    solved = fits[1].precision(0.2).solve(vector)
    torch.testing.assert_close(solved @ matrix, vector, rtol=1e-8, atol=1e-8)


def test_full_hessian_and_prior_are_the_hessian_of_the_surface() -> None:
    surface = surface_of("mlp", "gaussian", effective_points=5.0, loss_scale=2.0)
    theta = surface.initial
    likelihood = fit_curvature(surface, theta, "full", "hessian").dense()
    identity = torch.eye(surface.size, dtype=torch.float64)
    prior = surface.loss_scale * surface.prior_precision * identity
    torch.testing.assert_close(likelihood + prior, surface.hessian(theta), rtol=1e-10, atol=1e-10)


def test_new_noise_needs_no_new_fit() -> None:
    surface = surface_of("mlp", "gaussian")
    quiet = surface.with_settings(likelihood=Gaussian(0.1), prior_precision=2.0)
    fitted_loud = fit_curvature(surface, surface.initial).precision_for(quiet)
    fitted_quiet = fit_curvature(quiet, surface.initial).precision_for(quiet)
    assert fitted_loud.log_determinant() == pytest.approx(fitted_quiet.log_determinant(), rel=1e-12)


def test_list_inputs_and_outputs_without_a_second_dimension() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return self.layer(a * b).squeeze(-1)

    torch.manual_seed(0)
    a, b = torch.randn(6, 3), torch.randn(6, 3)
    surface = LossSurface(Sum(), ([a, b], torch.randn(6)), Gaussian(0.5))
    features = torch.cat([a * b, torch.ones(6, 1)], 1).double()
    expected = features.T @ features / 0.25
    for structure in ("full", "low_rank"):
        for kind in ("ggn", "hessian"):
            curvature = fit_curvature(surface, surface.initial, structure, kind)
            assert relative_error(curvature.dense(), expected) < 1e-6
    # One output of a linear model: KFAC's blocks are the exact ones.
    kronecker = fit_curvature(surface, surface.initial, "kronecker").dense()
    assert relative_error(kronecker[:3, :3], expected[:3, :3]) < 1e-6
    assert relative_error(kronecker[3:, 3:], expected[3:, 3:]) < 1e-6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"structure": "fulll"}, "full, diagonal, kronecker, low_rank"),
        ({"kind": "fisher"}, "ggn, hessian"),
        ({"structure": "kronecker", "kind": "hessian"}, "ggn"),
        ({"structure": "low_rank", "rank": 0}, "rank"),
    ],
)
def test_wrong_names_are_answered_with_the_right_ones(arguments: dict, words: str) -> None:
    surface = surface_of()
    with pytest.raises(ValueError, match=words):
        fit_curvature(surface, surface.initial, **arguments)


def test_theta_is_checked() -> None:
    surface = surface_of()
    with pytest.raises(ValueError, match="theta"):
        fit_curvature(surface, surface.initial[:-1])
    with pytest.raises(ValueError, match="NaN"):
        fit_curvature(surface, surface.initial * torch.nan)
    with pytest.raises(TypeError, match="theta"):
        fit_curvature(surface, [0.0])  # type: ignore[arg-type]


def test_full_refuses_matrices_that_would_not_fit() -> None:
    surface = LossSurface(nn.Linear(3000, 8), (torch.randn(4, 3000), torch.randn(4, 8)), Gaussian())
    with pytest.raises(ValueError, match="low_rank"):
        fit_curvature(surface, surface.initial)


@pytest.mark.slow
def test_importing_needs_neither_curvlinops_nor_laplace() -> None:
    code = (
        "import sys; sys.modules['curvlinops'] = sys.modules['laplace'] = None\n"
        "import dims.curvature.evidence, dims.sampling.perturbations"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_direction_in_which_a_softmax_has_no_weight_is_left_out(dtype):
    probabilities = torch.softmax(torch.randn(50, 4, dtype=dtype), -1)
    weights = torch.diag_embed(probabilities) - probabilities[:, :, None] * probabilities[:, None]
    roots, signs = _square_roots(weights, torch.float64)
    assert roots.shape == (50, 3, 4)
    assert (signs > 0).all()
    close = {torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
    assert torch.allclose(roots.mT @ roots, weights.double(), rtol=0, atol=close)
