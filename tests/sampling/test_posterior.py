"""From a trained network to draws: `fit`, the four samplers, and the errors on the way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dims
from cases import diagonal
from dims.errors import NotAMinimumWarning


def line_data(points: int = 12, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.linspace(-1, 1, points, dtype=dtype).unsqueeze(-1)
    noise = 0.1 * torch.randn(points, 1, generator=generator, dtype=torch.float64)
    return x, (1.5 * x - 0.3 + noise.to(dtype))


def linear_posterior(**settings) -> dims.Posterior:
    model = nn.Linear(1, 1).double()
    settings = {"prior_precision": 2.0, "noise_std": 0.1, "refine": True} | settings
    return dims.fit(model, line_data(), "regression", **settings)


def ridge() -> tuple[Tensor, Tensor]:
    """Mean and covariance of Bayesian linear regression in closed form."""
    x, y = line_data()
    design = torch.cat([x, torch.ones_like(x)], 1)
    precision = design.T @ design / 0.1**2 + 2.0 * torch.eye(2, dtype=torch.float64)
    covariance = torch.linalg.inv(precision)
    return (covariance @ design.T @ y / 0.1**2).squeeze(-1), covariance


@pytest.fixture(scope="module")
def small() -> dims.Posterior:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    return dims.fit(
        model, line_data(), "regression", prior_precision=1.0, noise_std=0.3, refine=True, tune=True
    )


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
class TestBayesianLinearRegression:
    def test_refined_map_is_the_posterior_mean(self):
        mean, _ = ridge()
        torch.testing.assert_close(linear_posterior().map_parameters, mean, rtol=0, atol=1e-6)

    def test_la_is_exact(self):
        mean, covariance = ridge()
        draws = linear_posterior().sample(4000, method="la", progress=False)
        torch.testing.assert_close(draws.parameters.mean(0), mean, rtol=0, atol=0.005)
        # The error of a covariance from n draws has variance (ΣᵢᵢΣⱼⱼ + Σᵢⱼ²)/n; five sigma.
        spread = torch.outer(covariance.diag(), covariance.diag()) + covariance.square()
        error = (draws.parameters.T.cov() - covariance).abs()
        assert (error < 5 * (spread / 4000).sqrt()).all()

    def test_linearised_equals_la_for_a_linear_network(self):
        posterior = linear_posterior()
        x = torch.tensor([[0.3], [5.0]], dtype=torch.float64)
        la, linla = (
            posterior.sample(5, method=method, progress=False).predict(x).samples
            for method in ("la", "linla")
        )
        torch.testing.assert_close(la, linla)

    def test_fully_descended_draws_sit_at_the_one_minimum(self):
        mean, _ = ridge()
        options = {"settle": "full", "certify": True, "progress": False}
        draws = linear_posterior().sample(6, "dims", friction=0.5, max_time=0.5, **options)
        torch.testing.assert_close(draws.parameters, mean.expand(6, 2), rtol=0, atol=1e-6)
        assert (draws.smallest_eigenvalue > 0).all()


class TestSharedVelocities:
    def test_a_draw_depends_on_seed_and_index_only(self, small):
        ten, three = small.perturbations(10, seed=5), small.perturbations(3, seed=5)
        assert torch.equal(ten[:3], three)
        assert torch.equal(small.perturbations(2, seed=5, first=8), ten[8:])
        assert not torch.equal(small.perturbations(3, seed=6), three)

    def test_la_and_linla_are_the_map_plus_the_velocities(self, small):
        epsilon = small.perturbations(4, seed=1)
        for method in ("la", "linla"):
            draws = small.sample(4, method=method, seed=1, progress=False)
            torch.testing.assert_close(draws.parameters, small.map_parameters + epsilon)

    def test_short_geodesics_and_falls_follow_the_velocities(self, small):
        epsilon = small.perturbations(4, seed=1)
        for method, more in (("rla", {}), ("dims", {"settle": "none", "certify": False})):
            draws = small.sample(4, method=method, seed=1, max_time=1e-4, progress=False, **more)
            moved = (draws.parameters - small.map_parameters) / 1e-4
            torch.testing.assert_close(moved, epsilon, rtol=0.05, atol=0.05)

    def test_geodesics_keep_their_speed(self, small):
        draws = small.sample(5, method="rla", progress=False)
        assert (draws.energy_violation < 1e-2).all()
        assert all(status is dims.Status.FINISHED for status in draws.status)

    def test_the_same_seed_gives_the_same_bits(self, small):
        settings = {"max_time": 1.0, "settle": "none", "certify": False, "progress": False}
        first, second = (small.sample(3, seed=2, **settings) for _ in range(2))
        assert torch.equal(first.parameters, second.parameters)


def test_dims_draws_are_settled_and_certified_where_that_is_asked_for(small):
    options = {"method": "dims", "friction": 0.5, "max_time": 3.0, "progress": False}
    draws = small.sample(4, settle="stiff", certify=True, **options)
    loose = small.sample(4, **options)
    assert (draws.loss <= loose.loss + 1e-9).all()
    assert (draws.gradient_norm < loose.gradient_norm).all()
    assert draws.verdict is not None
    assert len(draws.verdict) == 4
    assert draws.smallest_eigenvalue.isfinite().all()
    assert "dims" in draws.summary()


def test_starting_on_a_slope_is_announced_and_mended_by_refine():
    model = nn.Linear(1, 1).double()
    with pytest.warns(NotAMinimumWarning, match="refine=True"):
        rough = dims.fit(
            model, line_data(), "regression", prior_precision=1.0, noise_std=0.1, tune=True
        )
    assert rough.gradient_norm > 1
    smooth = dims.fit(
        model, line_data(), "regression", prior_precision=1.0, noise_std=0.1, refine=True, tune=True
    )
    assert smooth.gradient_norm < 1e-3


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
def test_tuning_reports_and_beats_the_default_evidence():
    tuned = dims.fit(nn.Linear(1, 1).double(), line_data(), "regression", tune=True)
    assert tuned.evidence is not None
    fixed = dims.fit(nn.Linear(1, 1).double(), line_data(), "regression", tune=False)
    assert fixed.prior_precision == 1.0
    assert fixed.noise_std == 1.0


class Tagger(nn.Module):
    """An embedding and a number, given as a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        parts = [self.embedding(inputs["word"]), inputs["number"]]
        return self.head(torch.tanh(torch.cat(parts, -1)))


def zoo() -> dict[str, tuple[nn.Module, object, Tensor]]:
    """Networks of many kinds with eight points and three classes each."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (8,), generator=generator)
    flat = torch.randn(8, 5, generator=generator)
    images = torch.randn(8, 1, 8, 8, generator=generator)
    words = {
        "word": torch.randint(0, 5, (8,), generator=generator),
        "number": torch.randn(8, 1, generator=generator),
    }
    frozen = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    frozen[0].requires_grad_(False)
    normed = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))
    lenet = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(18, 3)
    )
    return {
        "mlp": (nn.Sequential(nn.Linear(5, 4), nn.SiLU(), nn.Linear(4, 3)), flat, labels),
        "cnn": (lenet, images, labels),
        "layer_norm": (
            nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 3)),
            flat,
            labels,
        ),
        "batch_norm": (normed, flat, labels),
        "embedding": (Tagger(), words, labels),
        "frozen": (frozen, flat, labels),
    }


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
@pytest.mark.parametrize(("name", "dtype"), diagonal(list(zoo()), [torch.float32, torch.float64]))
def test_every_kind_of_network_goes_all_the_way(name, dtype):
    model, inputs, labels = zoo()[name]
    model = model.to(dtype).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    posterior = dims.fit(
        model,
        (inputs, labels),
        "classification",
        prior_precision=1.0,
        curvature="diagonal",
        tune=True,
    )
    draws = posterior.sample(2, max_time=0.5, friction=0.5, progress=False)
    prediction = draws.predict(inputs)
    assert draws.parameters.dtype == dtype
    assert prediction.probabilities.shape == (8, 3)
    torch.testing.assert_close(
        prediction.probabilities.sum(-1), torch.ones(8, dtype=prediction.probabilities.dtype)
    )
    after = model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"draws": 0}, "draws"),
            ({"draws": 2, "method": "mcmc"}, "la, linla, rla, dims"),
            ({"draws": 2, "method": "la", "friction": 0.1}, "friction"),
            ({"draws": 2, "method": "rla", "settle": "stiff"}, "settle"),
            ({"draws": 2, "friction": -1.0}, "friction"),
            ({"draws": 2, "gravity": -1.0}, "gravity"),
            ({"draws": 2, "tolerance": -1.0}, "tolerance"),
            ({"draws": 2, "solver": "euler"}, "rattle, dopri5"),
            ({"draws": 2, "settle": "quick"}, "stiff, full"),
            ({"draws": 2, "max_time": -1.0}, "max_time"),
        ],
    )
    def test_sampling_arguments_are_named(self, small, arguments, message, unchecked):
        with pytest.raises(ValueError, match=message):
            small.sample(**arguments, progress=False)

    def test_noise_belongs_to_regression(self, unchecked):
        model = nn.Linear(1, 3).double()
        labels = torch.zeros(12, dtype=torch.int64)
        with pytest.raises(ValueError, match="noise_std"):
            dims.fit(model, (line_data()[0], labels), "classification", noise_std=0.1, tune=True)

    def test_unknown_structures_are_listed(self, unchecked):
        with pytest.raises(ValueError, match="full, diagonal, kronecker, low_rank"):
            dims.fit(
                nn.Linear(1, 1).double(), line_data(), "regression", curvature="banded", tune=True
            )
