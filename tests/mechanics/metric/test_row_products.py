"""Products with the curvature of each row, beside dense matrices; points that stand for all."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.mechanics.metric import curvature
from dims.mechanics.metric.curvature import Part, choose_points, row_products

POINTS, ROWS = 11, 3
LIKELIHOODS = {
    "gaussian": (dims.Gaussian(0.4), 2),
    "bernoulli": (dims.Bernoulli(), 1),
    "categorical": (dims.Categorical(), 3),
}


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_surface(name: str, points: int = POINTS, **more) -> dims.LossSurface:
    likelihood, outputs = LIKELIHOODS[name]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, outputs)).double()
    targets = randn(points, outputs, seed=1)
    if name != "gaussian":
        targets = (targets.sum(-1) > 0).long()
    size = sum(p.numel() for p in model.parameters())
    prior = torch.linspace(0.5, 2.0, size, dtype=torch.float64)
    how = {"effective_points": 2.5 * points, "loss_scale": 0.7} | more
    return dims.LossSurface(model, (randn(points, 2), targets), likelihood, prior, **how)


def dense_ggn(surface: dims.LossSurface, theta: Tensor, weights: Tensor) -> Tensor:
    """s·Σᵢ wᵢ·JᵢᵀΛᵢJᵢ + δ, with J and Λ of each point by automatic differentiation."""

    def outputs(theta: Tensor) -> Tensor:
        return surface.network(surface.vector.unflatten(theta), surface.data.inputs)

    jacobian = torch.autograd.functional.jacobian(outputs, theta)
    total = torch.zeros(surface.size, surface.size, dtype=torch.float64)
    for point, (output, target) in enumerate(
        zip(outputs(theta), surface.data.targets, strict=True)
    ):

        def negative_log(output: Tensor, target: Tensor = target) -> Tensor:
            return surface.likelihood.negative_log(output[None], target[None]).sum()

        inner = torch.autograd.functional.hessian(negative_log, output.detach())
        total += weights[point] * jacobian[point].T @ inner @ jacobian[point]
    prior = surface.loss_scale * surface.prior_precision.diag_embed()
    return surface.loss_scale * surface.effective_points / surface.points * total + prior


def thetas_of(surface: dims.LossSurface) -> Tensor:
    return surface.initial + 0.5 * randn(ROWS, surface.size, seed=2)


FORMS = ["jacobian", "jacobian, row by row", "network", "network, vector by vector"]


def use(form: str, monkeypatch: pytest.MonkeyPatch, surface: dims.LossSurface) -> dims.LossSurface:
    """Let only one way of computing a product be possible."""
    if form.startswith("network"):
        monkeypatch.setattr(curvature, "JACOBIAN_BYTES", 0)
        monkeypatch.setattr(curvature, "_jacobian", None)
    else:
        monkeypatch.setattr(curvature, "_network", None)
    if form.endswith(("by row", "by vector")):
        monkeypatch.setattr(surface, "memory_budget", 1)
    return surface


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", list(LIKELIHOODS))
def test_all_forms_are_the_dense_matrix(name, form, monkeypatch):
    surface = use(form, monkeypatch, make_surface(name))
    thetas, vectors = thetas_of(surface), randn(ROWS, 5, surface.size, seed=3)
    product = row_products(surface, thetas, None)
    everything = torch.ones(POINTS, dtype=torch.float64)
    for row in range(ROWS):
        wanted = vectors[row] @ dense_ggn(surface, thetas[row], everything)
        torch.testing.assert_close(product(vectors)[row], wanted)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", list(LIKELIHOODS))
def test_with_some_points_in_every_row(name, form, monkeypatch):
    surface = use(form, monkeypatch, make_surface(name))
    thetas, vectors = thetas_of(surface), randn(ROWS, 5, surface.size, seed=3)
    points = torch.tensor([[0, 4, 7], [1, 2, 3], [10, 9, 0]])
    weights = torch.tensor([[1.0, 2.0, 3.0], [0.5, 4.0, 1.0], [7.0, 2.0, 1.0]]).double()
    product = row_products(surface, thetas, Part(points, weights))
    for row in range(ROWS):
        all_weights = torch.zeros(POINTS, dtype=torch.float64)
        all_weights[points[row]] = weights[row]
        wanted = vectors[row] @ dense_ggn(surface, thetas[row], all_weights)
        torch.testing.assert_close(product(vectors)[row], wanted)


def test_a_plain_surface_has_its_hessian():
    surface = dims.Surface(lambda theta: theta.prod().sin() + theta.pow(4).sum())
    thetas, vectors = randn(ROWS, 5), randn(ROWS, 4, 5, seed=1)
    found = row_products(surface, thetas, None)(vectors)
    for row in range(ROWS):
        torch.testing.assert_close(found[row], vectors[row] @ surface.hessian(thetas[row]))


def gumbel(draws: int, points: int, seed: int = 0) -> Tensor:
    uniform = torch.rand(
        draws, points, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return -(-uniform.log()).log()


def test_the_chosen_points_have_the_sum_over_all_as_their_mean():
    """The mean of the weighted matrices over many draws is the full one within 4.5 errors.

    Some points have a curvature hundreds of times smaller than others (sure predictions).
    """
    surface = make_surface("categorical", points=24)
    theta = 6 * surface.initial
    draws, count = 4000, 6
    part = choose_points(surface, theta.expand(draws, -1), count, gumbel(draws, 24))
    assert part.points.shape == part.weights.shape == (draws, count)
    assert (part.weights >= 1).all()
    assert all(len(set(row)) == count for row in part.points[:50].tolist())

    each = torch.stack(
        [dense_ggn(surface, theta, weights) for weights in torch.eye(24, dtype=torch.float64)]
    )
    traces = torch.stack([matrix.trace() for matrix in each])
    traces = traces - (surface.loss_scale * surface.prior_precision).sum()
    assert traces.max() / traces.min() > 100
    weights = torch.zeros(draws, 24, dtype=torch.float64).scatter_(1, part.points, part.weights)
    # E[w] = 1 for every point: chosen with probability p, it stands for 1/p points.
    # One that is almost never chosen has too few weights to speak of their spread.
    often = (weights > 0).sum(0) > 40
    assert often.sum() >= 20
    error = weights.std(0) / math.sqrt(draws)
    assert ((weights.mean(0) - 1).abs() < 4.5 * error)[often].all()
    # The likelier, the larger the curvature.
    chosen = (weights > 0).double().mean(0)
    assert torch.corrcoef(torch.stack([chosen, traces]))[0, 1] > 0.5
    # And so for numbers of the matrix itself.
    probe = randn(surface.size)
    values = torch.stack([probe @ matrix @ probe for matrix in each])
    prior = surface.loss_scale * (surface.prior_precision * probe.square()).sum()
    sums = weights @ (values - prior) + prior
    wanted = probe @ dense_ggn(surface, theta, torch.ones(24, dtype=torch.float64)) @ probe
    assert (sums.mean() - wanted).abs() < 4.5 * sums.std() / math.sqrt(draws)


def test_the_products_use_the_chosen_points():
    """`choose_points` and `row_products` together: one draw's matrix by hand."""
    surface = make_surface("bernoulli", points=24)
    thetas = thetas_of(surface)
    part = choose_points(surface, thetas, 5, gumbel(ROWS, 24))
    vectors = randn(ROWS, 2, surface.size, seed=3)
    found = row_products(surface, thetas, part)(vectors)
    for row in range(ROWS):
        weights = torch.zeros(24, dtype=torch.float64)
        weights[part.points[row]] = part.weights[row]
        wanted = vectors[row] @ dense_ggn(surface, thetas[row], weights)
        torch.testing.assert_close(found[row], wanted)


def test_points_of_equal_curvature_stand_for_equally_many():
    """With a Gaussian Λ is constant: n of N points weigh N/n each, up to the noise of a key."""
    points, count, draws = 400, 100, 200
    surface = make_surface("gaussian", points=points)
    part = choose_points(surface, surface.initial.expand(draws, -1), count, gumbel(draws, points))
    assert torch.equal(part.weights, part.weights[:, :1].expand_as(part.weights))
    mean, error = part.weights.mean(), part.weights[:, 0].std() / math.sqrt(draws)
    assert (mean - points / count).abs() < 4.5 * error
    assert part.weights.min() > 0.7 * points / count
    assert part.weights.max() < 1.4 * points / count
    # Every point is as likely as another: a χ² of 399 degrees of freedom, by its normal limit.
    counts = torch.bincount(part.points.flatten(), minlength=points).double()
    expected = draws * count / points
    statistic = ((counts - expected).square() / (expected * (1 - count / points))).sum()
    assert abs(float(statistic) - points) < 4.5 * math.sqrt(2 * points)


def test_a_row_of_nan_leaves_the_points_of_others():
    surface = make_surface("categorical", points=24)
    thetas, noise = thetas_of(surface), gumbel(ROWS, 24)
    bad = thetas.clone()
    bad[1] = torch.nan
    healthy, found = choose_points(surface, thetas, 5, noise), choose_points(surface, bad, 5, noise)
    others = [0, 2]
    assert torch.equal(found.points[others], healthy.points[others])
    assert torch.equal(found.weights[others], healthy.weights[others])
    vectors = randn(ROWS, 2, surface.size, seed=3)
    images = row_products(surface, bad, found)(vectors)
    assert images[1].isnan().all()
    torch.testing.assert_close(
        images[others], row_products(surface, thetas, healthy)(vectors)[others], rtol=0, atol=1e-12
    )
