"""Points that are really left out, beside closed forms of linear regression."""

import math

import pytest
import torch
from torch import nn

import dims
from dims.curvature import fit_curvature
from dims.sampling.evidence_minimum import minimum_of
from dims.sampling.gauss_newton import walk_down
from dims.sampling.leave_one_out import unseen_scores
from dims.sampling.left_out import SHARE, LeftOut, needs_check
from dims.surface.loss import LossSurface

POINTS, COLUMNS, NOISE = 60, 40, 0.5
WEAK, STRONG = 1e-4, 30.0


def _at(surface, theta):
    return fit_curvature(surface, theta, "full", "ggn", 10)


def _problem(signal, copies=False):
    """Targets that are next to noise, or follow the inputs; as many columns as can learn either."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(POINTS, COLUMNS, generator=generator, dtype=torch.float64)
    if copies:
        x = x[: POINTS // 2].repeat(2, 1)
    w = signal * torch.randn(COLUMNS, 1, generator=generator, dtype=torch.float64)
    noise = NOISE * torch.randn(len(x), 1, generator=generator, dtype=torch.float64)
    if copies:
        noise = noise[: POINTS // 2].repeat(2, 1)
    return nn.Linear(COLUMNS, 1, bias=False).double(), x, x @ w + noise


def _candidates(model, x, y):
    surface = LossSurface(model, (x, y), dims.Gaussian(NOISE))
    return surface, {
        math.log(prior): minimum_of(
            surface, surface.initial, torch.tensor(prior), NOISE, _at, False, True
        )
        for prior in (WEAK, STRONG)
    }


def _left_out(surface):
    return LeftOut(surface, surface.initial, _at, 60)


def _predicted(x, y, order, prior):
    """The mean log density of the first fifth of an order under ridge regression on the others."""
    held, kept = order[: round(SHARE * len(order))], order[round(SHARE * len(order)) :]
    precision = x[kept].T @ x[kept] / NOISE**2 + prior * torch.eye(COLUMNS, dtype=x.dtype)
    mean = torch.linalg.solve(precision, x[kept].T @ y[kept] / NOISE**2)
    variance = (x[held] @ torch.linalg.solve(precision, x[held].T)).diagonal() + NOISE**2
    normal = torch.distributions.Normal((x[held] @ mean).squeeze(-1), variance.sqrt())
    return float(normal.log_prob(y[held].squeeze(-1)).mean())


@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_scores_are_those_of_ridge_regression_on_the_other_points(signal):
    model, x, y = _problem(signal)
    surface, minima = _candidates(model, x, y)
    unseen = _left_out(surface)
    unseen.weakest(minima, math.log(WEAK))
    found = unseen.noted(minima)
    order = torch.randperm(POINTS, generator=torch.Generator().manual_seed(0))
    for place, minimum in found.items():
        expected = _predicted(x, y, order, math.exp(place))
        assert minimum.candidate.left_out_points == pytest.approx(expected, rel=1e-5)
        assert minimum.candidate.evaluations > minima[place].candidate.evaluations


@pytest.mark.parametrize(("signal", "kept"), [(0.0, STRONG), (1.0, WEAK)], ids=["noise", "signal"])
def test_a_prior_under_which_noise_is_learnt_gives_way_to_a_stronger_one(signal, kept):
    model, x, y = _problem(signal)
    surface, minima = _candidates(model, x, y)
    place = _left_out(surface).weakest(minima, math.log(WEAK))
    assert math.exp(place) == pytest.approx(kept)


def test_a_weaker_prior_than_the_chosen_one_is_not_asked_for():
    model, x, y = _problem(1.0)
    surface, minima = _candidates(model, x, y)
    unseen = _left_out(surface)
    assert math.exp(unseen.weakest(minima, math.log(STRONG))) == pytest.approx(STRONG)
    assert math.isnan(unseen.noted(minima)[math.log(WEAK)].candidate.left_out_points)


def test_copies_of_a_point_are_left_out_with_it():
    """Otherwise all noise would be known from the copies, and the weak prior would stay."""
    model, x, y = _problem(0.0, copies=True)
    surface, minima = _candidates(model, x, y)
    place = _left_out(surface).weakest(minima, math.log(WEAK))
    assert math.exp(place) == pytest.approx(STRONG)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_unseen_points_are_scored_by_the_predictive_density(scale):
    """Whatever the loss is multiplied with."""
    model, x, y = _problem(1.0)
    likelihood = dims.Gaussian(NOISE)
    surface = LossSurface(model, (x[12:], y[12:]), likelihood, STRONG, loss_scale=scale)
    walk = walk_down(surface, surface.initial, _at, tolerance=1e-14)
    seen = LossSurface(model, (x[:12], y[:12]), likelihood).work
    found = unseen_scores(surface, walk.theta, walk.curvature, seen)
    assert found.shape == (12,)
    assert float(found.mean()) == pytest.approx(
        _predicted(x, y, torch.arange(POINTS), STRONG), rel=1e-6
    )


def test_only_densities_are_checked():
    x, y = torch.randn(20, 2), torch.randn(20, 1)
    model = nn.Linear(2, 2)
    assert needs_check(LossSurface(model, (x, y), dims.HeteroscedasticGaussian()))
    labels = (y.squeeze(-1) > 0).long()
    assert not needs_check(LossSurface(model, (x, labels), "classification"))


def test_the_summary_tells_what_left_out_points_said():
    torch.manual_seed(0)
    x = torch.linspace(-2, 2, 40).unsqueeze(-1)
    y = x.sin() + 0.1 * torch.randn(40, 1)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))
    posterior = dims.fit(model, (x, y), dims.HeteroscedasticGaussian(0.05), progress=False)
    chosen = [
        c
        for c in posterior.evidence.candidates
        if c.prior_precision is posterior.evidence.prior_precision
    ]
    assert len(chosen) == 1
    assert math.isfinite(chosen[0].left_out_points)
    assert f"{chosen[0].left_out_points:.3f} a left-out point  chosen" in posterior.summary()


def test_the_search_goes_no_further_than_to_the_first_prior_that_learns_noise():
    """Leave-one-out scores alone would go on to ever weaker priors."""
    torch.manual_seed(0)
    x, noise = torch.randn(150, 6), torch.randn(150, 1)
    y = 0.9 * x[:, :1] + noise
    model = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 2))
    likelihood = dims.HeteroscedasticGaussian(0.2)
    alone = dims.fit(model, (x, y), likelihood, tune="leave_one_out", progress=False).evidence
    found = dims.fit(model, (x, y), likelihood, progress=False).evidence
    weakest, *others = found.candidates
    assert weakest.prior_precision < found.prior_precision
    assert all(c.prior_precision >= found.prior_precision for c in others)
    assert weakest.left_out_points < max(c.left_out_points for c in others)
    assert len(found.candidates) < len(alone.candidates)
    assert found.evaluations < alone.evaluations
    assert found.converged


def test_unseen_points_are_scored_by_the_mean_of_both_densities():
    """Of the linearised approximation, by an integral on a grid, and at the minimum."""
    torch.manual_seed(0)
    x, y = torch.randn(30, 1).double(), torch.randn(30, 1).double()
    model = nn.Linear(1, 1, bias=False).double()
    likelihood = dims.StudentT(degrees=4.0, scale=0.5)
    surface = LossSurface(model, (x[5:], y[5:]), likelihood, 1.0)
    walk = walk_down(surface, surface.initial, _at, tolerance=1e-12)
    seen = LossSurface(model, (x[:5], y[:5]), likelihood).work
    found = unseen_scores(surface, walk.theta, walk.curvature, seen)
    variance = float(walk.curvature.precision_for(surface).solve(torch.ones(1).double()))
    weights = walk.theta + variance**0.5 * torch.linspace(-6, 6, 2001).double().unsqueeze(-1)
    mass = torch.distributions.Normal(walk.theta, variance**0.5).log_prob(weights).exp()
    for point in range(5):
        outputs = (x[point] * weights).unsqueeze(1)
        density = likelihood.predictive(outputs).log_scores(y[point : point + 1]).exp()
        integral = float((mass * density).sum() / mass.sum())
        here = (x[point] * walk.theta).view(1, 1, 1)
        at_minimum = likelihood.predictive(here).log_scores(y[point : point + 1]).exp().item()
        expected = math.log(0.5 * (integral + at_minimum))
        assert float(found[point]) == pytest.approx(expected, abs=0.02)
