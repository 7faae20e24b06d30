"""Each precision against dense algebra: solve, log det, sampled covariance, repair, errors."""

from __future__ import annotations

import warnings

import pytest
import torch
from curvature_surfaces import surface_of

from dims.curvature import Curvature, fit_curvature
from dims.curvature.diagonal import DiagonalCurvature
from dims.curvature.full import FullCurvature
from dims.curvature.low_rank import LowRankCurvature
from dims.errors import IndefiniteHessianWarning, NotPositiveDefiniteError

STRUCTURES = ("full", "diagonal", "low_rank", "kronecker")
PRIORS = ("scalar", "vector")


def prior_of(curvature: Curvature, surface: object, kind: str) -> torch.Tensor:
    """One number, or one for each tensor of θ (the finest that Kronecker blocks take)."""
    if kind == "scalar":
        return torch.tensor(0.6, dtype=torch.float64)
    vector = surface.vector  # type: ignore[attr-defined]
    steps = torch.arange(1, len(vector.sizes) + 1, dtype=torch.float64)
    return 0.3 * steps.repeat_interleave(torch.tensor(vector.sizes))


def fitted(structure: str, rank: int = 9) -> tuple[Curvature, object]:
    surface = surface_of("mlp", "categorical")
    return fit_curvature(surface, surface.initial, structure, rank=rank), surface


def dense_precision(curvature: Curvature, prior: torch.Tensor, scale: float) -> torch.Tensor:
    return scale * curvature.dense() + torch.diag(prior.expand(curvature.size))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_solve_and_log_determinant_are_the_dense_ones(structure: str, prior: str) -> None:
    curvature, surface = fitted(structure)
    delta = prior_of(curvature, surface, prior)
    precision = curvature.precision(delta, scale=2.5)
    dense = dense_precision(curvature, delta, 2.5)
    vectors = torch.randn(4, curvature.size, dtype=torch.float64)
    expected = torch.linalg.solve(dense, vectors.T).T
    torch.testing.assert_close(precision.solve(vectors), expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(precision.solve(vectors[0]), expected[0], rtol=1e-9, atol=1e-11)
    determinant = float(torch.logdet(dense))
    assert precision.log_determinant() == pytest.approx(determinant, rel=1e-10)
    scale = torch.tensor(2.5, dtype=torch.float64)
    assert float(curvature.log_determinant(delta, scale)) == pytest.approx(determinant, rel=1e-10)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_color_is_a_square_root_of_the_covariance(structure: str, prior: str) -> None:
    curvature, surface = fitted(structure)
    delta = prior_of(curvature, surface, prior)
    root = curvature.precision(delta).color(torch.eye(curvature.size, dtype=torch.float64)).T
    covariance = torch.linalg.inv(dense_precision(curvature, delta, 1.0))
    torch.testing.assert_close(root @ root.T, covariance, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_sampled_covariance_is_the_inverse_precision(structure: str) -> None:
    curvature, surface = fitted(structure)
    delta = prior_of(curvature, surface, "vector")
    count = 40_000
    draws = curvature.precision(delta).sample(count, torch.Generator().manual_seed(1))
    dense = dense_precision(curvature, delta, 1.0)
    # Whitened, the sample covariance is I with entries of standard deviation √((1 + [i=j])/count).
    white = draws @ torch.linalg.cholesky(dense)
    deviation = (white.T @ white / count - torch.eye(curvature.size)) * count**0.5
    deviation.diagonal().div_(2**0.5)
    assert float(deviation.abs().max()) < 5.0  # the largest of 43·44/2 normal numbers
    assert abs(float(deviation.square().mean()) - 1) < 0.15
    assert float((white.mean(0) * count**0.5).abs().max()) < 4.5


@pytest.mark.parametrize("structure", STRUCTURES)
def test_log_determinant_has_the_right_derivatives(structure: str) -> None:
    curvature, surface = fitted(structure)
    vector = surface.vector  # type: ignore[attr-defined]

    def of_groups(deltas: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        prior = deltas.repeat_interleave(torch.tensor(vector.sizes))
        return curvature.log_determinant(prior, scale)

    deltas = torch.rand(len(vector.sizes), dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(of_groups, (deltas + 0.5, scale))


def indefinite() -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues from −50 to 80 on random axes of a 43-dimensional space.

    One is −1 less a millionth: at a prior precision of 1 the sign of zero would be rounding's.
    """
    generator = torch.Generator().manual_seed(0)
    axes, _ = torch.linalg.qr(torch.randn(43, 43, generator=generator, dtype=torch.float64))
    values = torch.zeros(43, dtype=torch.float64)
    values[:6] = torch.tensor([80.0, -50.0, 3.0, -1.000001, -0.7, -0.2], dtype=torch.float64)
    return values, axes


@pytest.mark.parametrize("structure", ["full", "low_rank", "diagonal"])
def test_negative_curvature_counts_by_its_size(structure: str) -> None:
    values, axes = indefinite()
    surface = surface_of()
    if structure == "diagonal":
        axes = torch.eye(43, dtype=torch.float64)
    curvature: Curvature = {
        "full": FullCurvature(surface, (axes * values) @ axes.T, semidefinite=False),
        "low_rank": LowRankCurvature(surface, axes[:, :6], values[:6], semidefinite=False),
        "diagonal": DiagonalCurvature(surface, values, semidefinite=False),
    }[structure]
    with pytest.warns(IndefiniteHessianWarning, match=r"2 of \d+ eigenvalues"):
        precision = curvature.precision(1.0)
    # λ + δ by its size and no less than δ/10; λ = −δ would be a direction of infinite variance.
    expected = torch.ones(43, dtype=torch.float64)
    expected[:6] = torch.tensor([81.0, 49.0, 4.0, 0.1, 0.3, 0.8], dtype=torch.float64)
    covariance = (axes / expected) @ axes.T
    identity = torch.eye(43, dtype=torch.float64)
    torch.testing.assert_close(precision.solve(identity), covariance, rtol=1e-8, atol=1e-9)
    assert precision.log_determinant() == pytest.approx(float(expected.log().sum()), rel=1e-9)
    root = precision.color(identity)
    torch.testing.assert_close(root.T @ root, covariance, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("structure", ["full", "low_rank", "diagonal"])
@pytest.mark.parametrize("prior", PRIORS)
def test_an_indefinite_likelihood_with_enough_prior_is_left_alone(
    structure: str, prior: str
) -> None:
    surface = surface_of("mlp", "gaussian")
    theta = surface.initial
    curvature = fit_curvature(surface, theta, structure, "hessian")
    lowest = torch.linalg.eigvalsh(curvature.dense()).min()
    assert lowest < 0
    delta = torch.rand(surface.size, dtype=torch.float64) - 1.5 * lowest
    delta = delta.min() if prior == "scalar" else delta
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision = curvature.precision(delta)
    expected = torch.logdet(dense_precision(curvature, delta, 1.0))
    assert precision.log_determinant() == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("structure", ["full", "low_rank", "diagonal"])
def test_absolute_turns_eigenvalues_over(structure: str) -> None:
    surface = surface_of("mlp", "gaussian")
    curvature = fit_curvature(surface, surface.initial, structure, "hessian")
    before = torch.linalg.eigvalsh(curvature.dense())
    after = torch.linalg.eigvalsh(curvature.absolute().dense())
    torch.testing.assert_close(after, before.abs().sort().values, rtol=1e-9, atol=1e-9)
    one = torch.ones((), dtype=torch.float64)
    expected = (2 * before.abs() + 0.3).log().sum()
    actual = curvature.absolute().log_determinant(0.3 * one, 2 * one)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_prior_on_a_singular_curvature_is_refused_with_advice(structure: str) -> None:
    surface = surface_of("embedding" if structure == "diagonal" else "mlp", "categorical")
    if structure == "diagonal":  # a token that never occurs has no curvature
        surface.data.inputs["token"].clamp_(max=2)
    curvature = fit_curvature(surface, surface.initial, structure)
    with pytest.raises(NotPositiveDefiniteError, match="positive prior_precision"):
        curvature.precision(0.0)


def test_no_prior_on_a_definite_curvature_is_fine() -> None:
    surface = surface_of("frozen", "gaussian")
    curvature = fit_curvature(surface, surface.initial)
    expected = float(torch.logdet(curvature.dense()))
    assert curvature.precision(0.0).log_determinant() == pytest.approx(expected, rel=1e-9)


def test_a_prior_below_the_rounding_of_a_ggn_is_still_the_largest_variance() -> None:
    """A GGN has no negative eigenvalues: those of rounding vanish, without a warning."""
    values, axes = indefinite()
    matrix = (axes * (1e14 * values.clamp(min=0))) @ axes.T
    assert torch.linalg.eigvalsh(matrix).min() < -1e-2
    precision = FullCurvature(surface_of(), matrix, semidefinite=True).precision(1e-3)
    variances = precision.solve(torch.eye(43, dtype=torch.float64)).diagonal()
    assert (variances > 0).all()
    assert float(variances.max()) <= 1e3 * (1 + 1e-9)
    stiff = axes[:, 0]
    assert float(stiff @ precision.solve(stiff)) == pytest.approx(1 / 80e14, rel=1e-2)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_arguments_are_checked(structure: str) -> None:
    curvature, _ = fitted(structure)
    for wrong in (-1.0, float("nan"), torch.ones(3)):
        with pytest.raises(ValueError, match="prior_precision"):
            curvature.precision(wrong)
    with pytest.raises(ValueError, match="scale"):
        curvature.precision(1.0, scale=0.0)
    with pytest.raises(ValueError, match="noise"):
        curvature.precision(1.0).color(torch.zeros(2, 3))


def test_a_prior_that_varies_within_a_tensor_is_refused_by_kronecker() -> None:
    curvature, surface = fitted("kronecker")
    with pytest.raises(ValueError, match=r"varies within '0.weight'"):
        curvature.precision(torch.linspace(1, 2, surface.size))  # type: ignore[attr-defined]
