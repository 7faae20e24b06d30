"""What a user gives is kept or refused by name; what a user owns is left alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dims

pytestmark = [
    pytest.mark.usefixtures("unchecked"),
    pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning"),
]


def data() -> tuple[Tensor, Tensor]:
    x = torch.linspace(-2, 2, 12, dtype=torch.float64).unsqueeze(-1)
    return x, x.sin()


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def test_the_noise_of_a_likelihood_object_is_given():
    assert dims.fit(model(), data(), dims.Gaussian(0.5), tune=True).noise_std == 0.5
    assert dims.fit(model(), data(), "regression", tune=True).noise_std != 1.0
    kept = dims.last_layer(model(), data(), dims.Gaussian(0.5), 2)
    assert kept.surface.likelihood.noise_std == 0.5


@pytest.mark.parametrize("as_numpy", [False, True])
def test_data_are_copied(as_numpy):
    x, y = data()
    given = (x.numpy(), y.numpy()) if as_numpy else (x, y)
    surface = dims.LossSurface(model(), given, "regression")
    before = surface.value(surface.initial[None])
    y.mul_(2.0)
    x.add_(1.0)
    assert torch.equal(surface.value(surface.initial[None]), before)


def test_a_loader_changes_no_global_state_and_may_not_drop_points():
    points = TensorDataset(*data())
    before = torch.get_rng_state()
    dims.LossSurface(model(), DataLoader(points, 5), "regression")
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match="drop_last"):
        dims.LossSurface(model(), DataLoader(points, 5, drop_last=True), "regression")
    dims.LossSurface(model(), DataLoader(points, 4, drop_last=True), "regression")


class HalfNaN(nn.Module):
    """Right on the first points, NaN on the last."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1).double()

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 1.5, torch.nan, self.line(x))


def test_a_loss_that_is_nan_on_a_late_point_is_refused():
    with pytest.raises(ValueError, match=r"model: the loss .* NaN"):
        dims.fit(HalfNaN(), data(), "regression", tune=False)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1).double()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.line(x), x


@pytest.mark.parametrize(
    ("network", "inputs"),
    [
        (model, torch.arange(12).unsqueeze(-1)),
        (model, torch.ones(12, 2, dtype=torch.float64)),
        (Pair, data()[0]),
    ],
    ids=["integers", "two columns", "two outputs"],
)
def test_inputs_that_the_model_refuses_are_a_value_error(network, inputs):
    with pytest.raises(ValueError, match="data: the model refuses the training inputs"):
        dims.LossSurface(network(), (inputs, data()[1]), "regression")


def bowl(theta: Tensor) -> Tensor:
    return theta.square().sum()


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({"surface": bowl}, TypeError, r"surface: .*dims.Surface\(function\)"),
        ({"dynamics": dims.geodesic}, TypeError, "dynamics"),
        ({"dynamics": "geodesic"}, TypeError, "dynamics"),
        ({"solver": None}, TypeError, "solver"),
        ({"solver": dims.Rattle}, TypeError, r"solver: .*dims.Rattle\(\)"),
        ({"stop": 3}, TypeError, "stop"),
        ({"max_time": None}, TypeError, "max_time"),
        ({"max_time": "1"}, TypeError, "max_time"),
        (
            {"surface": dims.Surface(lambda t: t.sum() * torch.nan)},
            ValueError,
            "position: the loss",
        ),
        ({"surface": dims.Surface(lambda t: t.sum().log())}, ValueError, "position: the loss"),
    ],
)
def test_arguments_of_integrate_are_named(changes, error, named):
    start = -torch.ones(2, dtype=torch.float64)
    arguments = {
        "surface": dims.Surface(bowl),
        "position": start,
        "velocity": start,
        "max_time": 0.1,
    }
    with pytest.raises(error, match=named):
        dims.integrate(**(arguments | changes))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("solver", ["rattle", "dopri5"])
def test_a_jump_at_the_start_ends_the_row(solver):
    steps = dims.Surface(lambda theta: theta.round().sum())
    start, velocity = torch.tensor([1.0, 0.5]), torch.tensor([0.3, 0.4])
    path = dims.integrate(steps, start.double(), velocity.double(), solver=solver, max_time=0.5)
    assert path.status[0] in (dims.Status.STALLED, dims.Status.FINISHED)
    assert path.end.isfinite().all()


def test_counts_and_solvers_of_sample():
    posterior = dims.fit(model(), data(), dims.Gaussian(0.5), tune=False)
    assert len(posterior.sample(np.int64(2), "la", progress=False)) == 2
    with pytest.raises(TypeError, match="draws"):
        posterior.sample(True, "la")
    short = {"max_time": 0.1, "progress": False, "certify": False, "metric": "euclidean"}
    named = posterior.sample(2, tolerance=1e-3, **short)
    given = posterior.sample(2, solver=dims.Rattle(tolerance=1e-3), **short)
    assert torch.equal(named.parameters, given.parameters)
    with pytest.raises(TypeError, match="solver: expected a name"):
        posterior.sample(2, solver=dims.Rattle)


def test_the_summary_does_not_contradict_the_verdicts():
    posterior = dims.fit(model(), data(), dims.Gaussian(0.5), tune=False)
    draws = posterior.sample(3, max_time=1.0, friction=1.0, certify=True, progress=False)
    names = set(draws.verdict)
    text = draws.summary()
    assert ("not at rest" in text) == ("NOT_AT_REST" in names)
    assert ("saddle" in text) == ("SADDLE" in names)
    assert "gradient norm above" not in text


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_laplace_object_brings_its_prior_and_noise():
    laplace = pytest.importorskip("laplace")
    network = model()
    la = laplace.Laplace(
        network,
        "regression",
        subset_of_weights="all",
        hessian_structure="full",
        prior_precision=5.0,
        sigma_noise=0.1,
    )
    la.fit(DataLoader(TensorDataset(*data()), batch_size=12))
    posterior = dims.fit(network, data(), "regression", curvature=la, tune=False)
    assert posterior.noise_std == pytest.approx(0.1)
    # Its covariance is formed in float32 products, hence no closer.
    spread = posterior.perturbations(4000).std(0)
    torch.testing.assert_close(spread, la.posterior_covariance.diagonal().sqrt(), rtol=0.06, atol=0)
    with pytest.raises(ValueError, match="refine"):
        dims.fit(network, data(), "regression", curvature=la, refine=True, tune=True)


def test_an_ensemble_without_a_noise_takes_its_residuals():
    x, y = data()
    torch.manual_seed(3)
    members = [model() for _ in range(3)]
    for member in members:
        nn.init.normal_(member[0].weight)
    drawn = dims.deep_ensemble(members, (x, y), "regression")
    squares = torch.stack([(member(x) - y).detach().square().mean() for member in members])
    assert drawn.surface.likelihood.noise_std == pytest.approx(float(squares.mean().sqrt()))
    given = dims.deep_ensemble(members, (x, y), "regression", noise_std=0.2)
    assert given.surface.likelihood.noise_std == 0.2
