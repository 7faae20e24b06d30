"""Approximate leave-one-out scores beside refits without each point."""

import math

import pytest
import torch
from torch import nn

import dims
from cases import first
from dims.curvature import fit_curvature
from dims.model.likelihoods.per_output import GaussianPerOutput
from dims.sampling.gauss_newton import walk_down
from dims.sampling.leave_one_out import leave_one_out
from dims.surface.loss import LossSurface


def _at(surface, theta):
    return fit_curvature(surface, theta, "full", "ggn", 10)


def _problem(points=14, columns=3, outputs=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(points, columns, generator=generator, dtype=torch.float64)
    w = torch.randn(columns, outputs, generator=generator, dtype=torch.float64)
    y = x @ w + 0.3 * torch.randn(points, outputs, generator=generator, dtype=torch.float64)
    model = nn.Linear(columns, outputs).double()
    return model, x, y


def _exact_linear(model, x, y, likelihood, prior):
    """log p(yᵢ | others) of Bayesian linear regression, by a refit without each point."""
    total = 0.0
    for i in range(len(x)):
        keep = torch.arange(len(x)) != i
        surface = LossSurface(model, (x[keep], y[keep]), likelihood, prior)
        walk = walk_down(surface, surface.initial, _at, tolerance=1e-14)
        covariance = torch.linalg.inv(
            _at(surface, walk.theta).dense() + prior * torch.eye(surface.size)
        )
        point = x[i : i + 1]

        def outputs(theta, surface=surface, point=point):
            return surface.network(surface.vector.unflatten(theta), point)[0]

        jacobian = torch.func.jacrev(outputs)
        j = jacobian(walk.theta)
        mean = surface.predict(walk.theta[None], x[i : i + 1])[0, 0]
        noise = torch.linalg.inv(likelihood.curvature_weights(mean[None], y[i : i + 1])[0])
        normal = torch.distributions.MultivariateNormal(mean, j @ covariance @ j.T + noise)
        total += float(normal.log_prob(y[i]))
    return total


@pytest.mark.parametrize(
    "likelihood", [dims.Gaussian(0.4), GaussianPerOutput((0.3, 0.6))], ids=["one", "two"]
)
def test_linear_regression_is_exact(likelihood):
    outputs = len(getattr(likelihood, "noise_stds", (1,)))
    model, x, y = _problem(outputs=outputs)
    surface = LossSurface(model, (x, y), likelihood, 0.7)
    theta = walk_down(surface, surface.initial, _at, tolerance=1e-14).theta
    found = leave_one_out(surface, theta, _at(surface, theta))
    assert found.score == pytest.approx(_exact_linear(model, x, y, likelihood, 0.7), rel=1e-8)
    assert found.noise_factor == 1.0


def test_noise_factor_maximises_the_score_at_a_fixed_ratio():
    model, x, y = _problem()

    def at(sigma):
        surface = LossSurface(model, (x, y), dims.Gaussian(sigma), 0.2 / sigma**2)
        theta = walk_down(surface, surface.initial, _at, tolerance=1e-14).theta
        return surface, theta, _at(surface, theta)

    found = leave_one_out(*at(1.0), open_noise=True)
    best = found.noise_factor
    around = [leave_one_out(*at(best * c)).score for c in (0.98, 1.0, 1.02)]
    assert around[1] > max(around[0], around[2])
    assert found.score == pytest.approx(around[1], rel=1e-8)


@pytest.mark.parametrize("seed", first([0, 1, 2, 3]))
def test_leaving_out_may_raise_the_noise_of_the_evidence_but_not_lower_it(seed):
    model, x, y = _problem(points=9, columns=4, seed=seed)
    cautious = dims.fit(model, (x, y), "regression", progress=False)
    *found, last = cautious.evidence.candidates
    best = max(found, key=lambda candidate: candidate.log_marginal_likelihood)
    surface = cautious.surface
    sigma = surface.likelihood.noise_std
    assert sigma == last.noise_std >= best.noise_std
    # No σ between the evidence's and three times as much is better at this δσ².
    scores = [
        leave_one_out(
            surface.with_settings(
                likelihood=dims.Gaussian(best.noise_std * factor),
                prior_precision=surface.prior_precision * (sigma / best.noise_std / factor) ** 2,
            ),
            cautious.map_parameters,
            _at(
                surface.with_settings(likelihood=dims.Gaussian(best.noise_std * factor)),
                cautious.map_parameters,
            ),
        ).score
        for factor in (1.0, 1.1, 1.5, 3.0)
    ]
    assert last.leave_one_out >= max(scores) - 1e-6


def test_logistic_regression_is_close_to_refits():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, 2, generator=generator, dtype=torch.float64)
    y = (x[:, 0] + 0.7 * torch.randn(40, generator=generator, dtype=torch.float64) > 0).long()
    model = nn.Linear(2, 2).double()
    prior = 0.5
    surface = LossSurface(model, (x, y), "classification", prior)
    theta = walk_down(surface, surface.initial, _at, tolerance=1e-14).theta
    found = leave_one_out(surface, theta, _at(surface, theta)).score
    total = 0.0
    for i in range(len(x)):
        keep = torch.arange(len(x)) != i
        part = LossSurface(model, (x[keep], y[keep]), "classification", prior)
        there = walk_down(part, part.initial, _at, tolerance=1e-14).theta
        precision = _at(part, there).precision_for(part)
        epsilon = precision.sample(4000, torch.Generator().manual_seed(i))
        outputs = part.predict_linearised(there, there + epsilon, x[i : i + 1])
        scores = part.likelihood.predictive(outputs).log_scores(y[i : i + 1])
        total += float(scores.logsumexp(0) - math.log(len(scores)))
    at_all = surface.likelihood.predictive(surface.predict(theta[None], x)).log_scores(y).sum()
    # The error of one Newton step is small beside what leaving out changes.
    assert abs(found - total) < 0.1 * abs(float(at_all) - total)


def test_score_ignores_the_unit_of_the_loss():
    model, x, y = _problem()
    scores = []
    for scale in (1.0, 0.05):
        surface = LossSurface(model, (x, y), dims.Gaussian(0.4), 0.7, loss_scale=scale)
        theta = walk_down(surface, surface.initial, _at, tolerance=1e-14).theta
        scores.append(leave_one_out(surface, theta, _at(surface, theta)).score)
    assert scores[0] == pytest.approx(scores[1], rel=1e-8)


def test_leave_one_out_prefers_the_prior_that_predicts():
    """Many columns of noise: the evidence and the score agree that a weak prior is worse."""
    model, x, y = _problem(points=30, columns=20, seed=1)
    posterior = dims.fit(model, (x, y), "regression", tune="leave_one_out", progress=False)
    scores = {c.prior_precision: c.leave_one_out for c in posterior.evidence.candidates}
    assert len(scores) > 3
    assert posterior.prior_precision in scores
    assert scores[posterior.prior_precision] >= max(scores.values()) - 1e-6


def test_copies_of_a_row_are_left_out_together():
    """As in a regression that has not seen any of them."""
    model, x, y = _problem()
    many = torch.cat([torch.arange(14), torch.tensor([2, 5])])
    likelihood, prior = dims.Gaussian(0.4), 0.7
    surface = LossSurface(model, (x[many], y[many]), likelihood, prior)
    theta = walk_down(surface, surface.initial, _at, tolerance=1e-14).theta
    found = leave_one_out(surface, theta, _at(surface, theta)).points
    for row in (0, 2, 5):
        keep = many != row
        part = LossSurface(model, (x[many][keep], y[many][keep]), likelihood, prior)
        there = walk_down(part, part.initial, _at, tolerance=1e-14).theta
        covariance = torch.linalg.inv(_at(part, there).dense() + prior * torch.eye(part.size))
        j = torch.cat([x[row], torch.ones(1)])
        mean = part.predict(there[None], x[row : row + 1])[0, 0, 0]
        normal = torch.distributions.Normal(mean, (j @ covariance @ j + 0.4**2).sqrt())
        expected = torch.full_like(found[~keep], float(normal.log_prob(y[row, 0])))
        torch.testing.assert_close(found[~keep], expected)


@pytest.mark.parametrize("seed", first([0, 1, 2, 3]))
def test_copied_rows_do_not_make_the_default_prior_weak(seed):
    """A noise that depends on the input learnt copies by heart, and was sure of it."""
    generator = torch.Generator().manual_seed(seed)

    def rows(count):
        x = 2 * torch.rand(count, 2, generator=generator, dtype=torch.float64) - 1
        noise = torch.randn(count, 1, generator=generator, dtype=torch.float64)
        return x, x[:, :1] + 0.5 * noise

    (x, y), (new_x, new_y) = rows(40), rows(500)
    twice = (x.repeat(2, 1), y.repeat(2, 1))
    likelihood = dims.HeteroscedasticGaussian(0.05)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(100):
        optimiser.zero_grad()
        likelihood.negative_log(model(twice[0]), twice[1]).mean().backward()
        optimiser.step()
    posterior = dims.fit(model, twice, likelihood, progress=False)
    draws = dims.Draws.from_parameters(posterior.surface, posterior.map_parameters[None])
    nll = draws.predict(new_x).metrics(new_y)["ensemble"]["nll"]
    constant = torch.distributions.Normal(y.mean(), y.std()).log_prob(new_y)
    assert nll < -float(constant.mean())
