"""Prior and noise by the evidence at the minimum of each candidate.

Oracle: a linear model, whose evidence log N(y; 0, σ²I + Σ_g X_g·X_gᵀ/δ_g) and minimiser
(XᵀX + σ²δ)⁻¹Xᵀy are closed forms.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dims
from cases import first
from dims.curvature import Curvature, fit_curvature
from dims.sampling import evidence_search, gauss_newton
from dims.sampling.evidence_minimum import EvidencePath
from dims.sampling.gauss_newton import walk_down


class TwoLayers(nn.Module):
    """f(x) = A·x₁ + B·x₂: linear, with two layers that may have priors of their own."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__()
        self.first = nn.Linear(first, 1, bias=False)
        self.second = nn.Linear(second, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        width = self.first.in_features
        return self.first(x[:, :width]) + self.second(x[:, width:])


def problem() -> tuple[nn.Module, Tensor, Tensor]:
    """Small weights in the first layer, large ones in the second, noise of 0.5, θ* anywhere."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, 12, generator=generator, dtype=torch.float64)
    sizes = torch.tensor([0.1] * 6 + [2.0] * 6, dtype=torch.float64)
    weights = sizes * torch.randn(12, generator=generator, dtype=torch.float64)
    noise = 0.5 * torch.randn(40, generator=generator, dtype=torch.float64)
    torch.manual_seed(0)
    return TwoLayers(6, 6).double(), x, (x @ weights + noise)[:, None]


def log_evidence(x: Tensor, y: Tensor, deltas: Tensor, sigma: Tensor) -> Tensor:
    covariance = sigma**2 * torch.eye(len(x), dtype=x.dtype) + (x / deltas) @ x.T
    normal = torch.distributions.MultivariateNormal(torch.zeros_like(y[:, 0]), covariance)
    return normal.log_prob(y[:, 0])


def best_of(x: Tensor, y: Tensor, groups: int) -> float:
    """The highest evidence by L-BFGS on the closed form."""
    logs = torch.zeros(groups + 1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([logs], max_iter=300, line_search_fn="strong_wolfe")
    repeats = 12 // groups

    def closure() -> Tensor:
        optimiser.zero_grad()
        deltas = logs[:-1].exp().repeat_interleave(repeats)
        value = -log_evidence(x, y, deltas, logs[-1].exp())
        value.backward()
        return value

    optimiser.step(closure)
    return -float(closure().detach())


def minimiser(x: Tensor, y: Tensor, deltas: Tensor, sigma: float) -> Tensor:
    return torch.linalg.solve(x.T @ x + sigma**2 * torch.diag(deltas), x.T @ y)[:, 0]


def test_every_candidate_has_the_evidence_at_its_own_minimum() -> None:
    model, x, y = problem()
    posterior = dims.fit(model, (x, y), "regression", tune="minimum")
    path = posterior.evidence
    assert isinstance(path, EvidencePath)
    assert len(path.candidates) >= 4
    for candidate in path.candidates:
        deltas = torch.full((12,), candidate.prior_precision, dtype=torch.float64)
        sigma = torch.tensor(candidate.noise_std, dtype=torch.float64)
        exact = log_evidence(x, y, deltas, sigma)
        assert candidate.log_marginal_likelihood == pytest.approx(float(exact), abs=1e-6)


def test_the_choice_is_the_best_of_the_closed_form_and_theta_moves_to_its_minimum() -> None:
    model, x, y = problem()
    posterior = dims.fit(model, (x, y), "regression", tune="minimum")
    assert posterior.log_marginal_likelihood == pytest.approx(best_of(x, y, 1), abs=0.03)
    deltas = torch.full((12,), posterior.prior_precision, dtype=torch.float64)
    expected = minimiser(x, y, deltas, posterior.noise_std)
    torch.testing.assert_close(posterior.map_parameters, expected, rtol=1e-6, atol=1e-6)
    # The trained network stays as it was given: only the posterior moves.
    assert torch.equal(posterior.surface.initial[:6], model.first.weight[0])
    with pytest.warns(dims.NotAMinimumWarning, match='tune="cautious"'):
        untouched = dims.fit(model, (x, y), "regression", tune=True)
    assert untouched.log_marginal_likelihood < posterior.log_marginal_likelihood - 10


def test_one_prior_for_each_layer_reaches_the_best_of_the_closed_form() -> None:
    model, x, y = problem()
    posterior = dims.fit(model, (x, y), "regression", tune="minimum", prior_structure="layer")
    best = best_of(x, y, 2)
    assert best > best_of(x, y, 1) + 3
    assert posterior.log_marginal_likelihood == pytest.approx(best, abs=0.2)
    precision = posterior.prior_precision
    assert isinstance(precision, Tensor)
    assert precision[:6].unique().numel() == precision[6:].unique().numel() == 1
    assert float(precision[0]) > 10 * float(precision[-1])


@pytest.mark.parametrize("given", first([{"noise_std": 0.5}, {"prior_precision": 0.5}]))
def test_what_is_given_stays(given: dict[str, float]) -> None:
    model, x, y = problem()
    posterior = dims.fit(model, (x, y), "regression", tune="minimum", **given)
    values = torch.logspace(-3, 3, 401, dtype=torch.float64)
    if "noise_std" in given:
        assert posterior.noise_std == 0.5
        curve = [log_evidence(x, y, v.expand(12), torch.tensor(0.5)) for v in values]
    else:
        assert posterior.prior_precision == 0.5
        curve = [
            log_evidence(x, y, torch.full((12,), 0.5).double(), v) for v in values.clamp(0.05, 10)
        ]
    assert posterior.log_marginal_likelihood == pytest.approx(float(max(curve)), abs=0.03)


def overfitting_problem() -> tuple[nn.Module, Tensor, Tensor]:
    """A classifier of 30 points with random labels in part, trained for a few steps only."""
    torch.manual_seed(0)
    x = torch.randn(30, 2, dtype=torch.float64)
    y = (x[:, 0] + 0.7 * torch.randn(30, dtype=torch.float64) > 0).long()
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model, x, y


@pytest.mark.parametrize("tune", ["minimum", "leave_one_out"])
def test_where_all_is_given_theta_walks_to_its_minimum(tune: str) -> None:
    model, x, y = problem()
    given = {"prior_precision": 3.0, "noise_std": 0.4}
    posterior = dims.fit(model, (x, y), "regression", tune=tune, **given, progress=False)
    there = minimiser(x, y, torch.full((12,), 3.0, dtype=x.dtype), 0.4)
    # A walk stops where the next step promises a small part of a nat.
    assert torch.allclose(posterior.map_parameters, there, atol=1e-3)
    assert isinstance(posterior.evidence, EvidencePath)
    assert posterior.evidence.converged
    assert len(posterior.evidence.candidates) == 1
    assert (float(posterior.prior_precision), posterior.noise_std) == (3.0, 0.4)
    with pytest.warns(dims.NotAMinimumWarning):
        usual = dims.fit(model, (x, y), "regression", **given, progress=False)
    assert torch.equal(usual.map_parameters, usual.surface.initial)  # it stays where it is given


def test_a_classifier_gets_the_prior_that_suits_its_minimum() -> None:
    model, x, y = overfitting_problem()
    posterior = dims.fit(model, (x, y), "classification", tune="minimum")
    path = posterior.evidence
    assert isinstance(path, EvidencePath)
    assert path.noise_std is None
    assert path.converged
    step = posterior.curvature.precision_for(posterior.surface).solve(posterior.gradient)
    assert 0.5 * float(posterior.gradient @ step) < 0.05  # nats that another step would gain
    values = [candidate.log_marginal_likelihood for candidate in path.candidates]
    best = values.index(max(values))
    assert 0 < best < len(values) - 1
    assert posterior.prior_precision == path.candidates[best].prior_precision
    summary = posterior.summary()
    assert "chosen" in summary.splitlines()[7 + best]
    assert f"{path.evaluations:,} gradients" in summary


def test_the_walk_ends_at_the_minimum_of_a_convex_loss() -> None:
    _, x, y = overfitting_problem()
    surface = dims.LossSurface(nn.Linear(2, 2).double(), (x, y), "classification", 0.3)
    walk = walk_down(surface, surface.initial, fit_curvature, tolerance=1e-12)
    settled = dims.settle(surface, surface.initial[None], "full")
    assert walk.arrived
    assert walk.curvatures <= 3  # gradients alone go most of the way
    assert walk.loss == pytest.approx(float(settled.loss), abs=1e-9)
    torch.testing.assert_close(walk.theta, settled.positions[0], rtol=0, atol=1e-4)


def test_the_walk_stops_where_another_step_promises_little() -> None:
    model, x, y = overfitting_problem()
    surface = dims.LossSurface(model, (x, y), "classification", 0.3)
    walk = walk_down(surface, surface.initial, fit_curvature, tolerance=1e-3, most_steps=300)
    assert walk.arrived
    assert walk.loss < float(surface.value(surface.initial[None])) - 0.5
    lowest = float(dims.settle(surface, walk.theta[None], "full").loss)
    assert lowest <= walk.loss < lowest + 0.1


def test_walks_on_more_data_stop_at_larger_promises() -> None:
    """What a whole step promises where a walk arrives is ½·gᵀP⁻¹g ≤ 2·10⁻⁴ nats a point."""
    model, x, y = overfitting_problem()
    for points, allowed in ((10.0, 0.05), (5e5, 100.0)):
        surface = dims.LossSurface(
            model, (x, y), "classification", 0.3 * points / 10, effective_points=points
        )
        start = 2 * surface.initial
        walk = walk_down(surface, start, fit_curvature, most_steps=300)
        _, gradient = surface.value_and_grad(walk.theta[None])
        whole = fit_curvature(surface, walk.theta).precision_for(surface).solve(gradient[0])
        exact = walk_down(surface, start, fit_curvature, tolerance=allowed, most_steps=300)
        assert walk.arrived
        assert 0.5 * float(gradient[0] @ whole) <= allowed
        assert torch.equal(walk.theta, exact.theta)


def test_a_walk_that_gains_no_more_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole steps promise more than the tolerance, but damped ones gain hundredths of a nat."""
    torch.manual_seed(1)
    x = torch.randn(60, 8)
    y = x[:, :1].sin() + 0.3 * torch.randn(60, 1)
    model = nn.Sequential(nn.Linear(8, 20), nn.Tanh(), nn.Linear(20, 2))
    surface = dims.LossSurface(model, (x, y), dims.HeteroscedasticGaussian(0.05), 0.01)
    short = walk_down(surface, surface.initial, fit_curvature)
    monkeypatch.setattr(gauss_newton, "STALLED", 10**6)
    long = walk_down(surface, surface.initial, fit_curvature)
    assert not short.arrived
    assert short.curvatures < long.curvatures
    assert short.loss == pytest.approx(long.loss, abs=0.1)  # nats
    assert torch.equal(short.curvature.dense(), fit_curvature(surface, short.theta).dense())


def test_a_search_that_goes_on_for_long_takes_the_best_so_far_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, x, y = problem()
    whole = dims.fit(model, (x, y), "regression", tune="minimum").evidence
    monkeypatch.setattr(evidence_search, "MOST_CURVATURES", 3)
    with pytest.warns(dims.EvidenceWarning, match="after 3 curvatures"):
        path = dims.fit(model, (x, y), "regression", tune="minimum").evidence
    assert isinstance(whole, EvidencePath)
    assert isinstance(path, EvidencePath)
    assert 1 <= len(path.candidates) < len(whole.candidates)
    best = max(candidate.log_marginal_likelihood for candidate in path.candidates)
    assert path.log_marginal_likelihood == best


def test_words_that_mean_nothing_are_refused() -> None:
    model, x, y = problem()
    with pytest.raises(ValueError, match="tune: expected"):
        dims.fit(model, (x, y), "regression", tune="best")
    with pytest.warns(dims.NotAMinimumWarning, match="refine=True walks"):
        dims.fit(model, (x, y), "regression", tune=False)


def noisy_sine(seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """The example of the README: twenty points with a noise of 0.2, in float32."""
    torch.manual_seed(seed)
    x = torch.linspace(-1, 1, 20).unsqueeze(-1)
    y = torch.sin(3 * x) + 0.2 * torch.randn(20, 1)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(500):
        optimiser.zero_grad()
        (model(x) - y).square().mean().backward()
        optimiser.step()
    return model, x, y


def test_the_curvature_of_a_walk_is_that_of_its_end() -> None:
    model, x, y = noisy_sine(7)
    weak, strong = (dims.LossSurface(model, (x, y), dims.Gaussian(0.2), d) for d in (0.4, 1.0))
    start = walk_down(weak, weak.initial, fit_curvature).theta
    walk = walk_down(strong, start, fit_curvature, tolerance=1.0)
    assert walk.curvatures == 2  # of the last step alone, a long one, and of the end
    assert not torch.equal(walk.theta, start)
    assert torch.equal(walk.curvature.dense(), fit_curvature(strong, walk.theta).dense())


@pytest.mark.parametrize("seed", [7, 26])
def test_the_noise_of_a_small_regression_is_not_ten_times_too_large(seed: int) -> None:
    """With the curvature of another place, leverages were above one, and σ was 3.1 and 0.8."""
    model, x, y = noisy_sine(seed)
    posterior = dims.fit(model, (x, y), "regression", progress=False)
    assert posterior.noise_std is not None
    assert 0.1 < posterior.noise_std < 0.4


def test_many_points_are_walked_down_by_the_curvature_of_some() -> None:
    """The end is that of a walk by whole curvatures, and the curvature there is whole."""
    torch.manual_seed(0)
    x = torch.randn(4000, 3).double()
    y = (x[:, :1] * x[:, 1:2]).sin() + 0.1 * torch.randn(4000, 1).double()
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    surface = dims.LossSurface(model, (x, y), dims.Gaussian(0.1), 1.0)
    points = []

    def counted(part: dims.LossSurface, theta: torch.Tensor) -> Curvature:
        points.append(part.points)
        return fit_curvature(part, theta)

    walk = walk_down(surface, surface.initial, counted)
    assert set(points) == {1000, 4000}
    assert points.index(4000) >= len(points) // 2
    assert walk.arrived
    assert torch.equal(walk.curvature.dense(), fit_curvature(surface, walk.theta).dense())
    exact = walk_down(surface, walk.theta, fit_curvature, tolerance=1e-6, most_steps=300)
    assert exact.loss <= walk.loss <= exact.loss + gauss_newton.TOLERANCE_PER_POINT * 4000


def test_where_nothing_is_explained_the_weakest_of_the_best_priors_is_taken() -> None:
    """Targets at right angles to all columns: the evidence rises to that of zero weights."""
    model, x, noise = problem()
    left, _, _ = torch.linalg.svd(x, full_matrices=False)
    targets = noise - left @ (left.T @ noise)
    with pytest.warns(dims.EvidenceWarning, match="at an end"):
        posterior = dims.fit(model, (x, targets), "regression", progress=False)
    path = posterior.evidence
    assert isinstance(path, EvidencePath)
    values = {float(c.prior_precision): c.log_marginal_likelihood for c in path.candidates}
    best = max(values.values())
    sigma = float(targets.square().mean().sqrt())
    nothing = torch.distributions.Normal(0.0, sigma).log_prob(targets).sum()
    assert best == pytest.approx(float(nothing), abs=0.1)
    chosen = float(posterior.prior_precision)
    assert chosen == pytest.approx(min(d for d, v in values.items() if v > best - 0.1), rel=0.2)
    assert chosen < max(values) / 10
