"""Draws widened by a Laplace approximation at each of them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import dims
from dims.prediction.stacking import stack
from dims.sampling.widening import widened

QUICK = {"max_time": 0.2, "certify": False, "progress": False}


def _linear() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(15, 2, generator=generator, dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-0.5]], dtype=torch.float64)
    y = y + 0.3 * torch.randn(15, 1, generator=generator, dtype=torch.float64)
    return nn.Linear(2, 1).double(), x, y


@pytest.fixture(scope="module")
def regression() -> dims.Posterior:
    model, x, y = _linear()
    return dims.fit(model, (x, y), "regression", progress=False)


def test_a_widened_draw_of_a_linear_model_is_exact(regression: dims.Posterior) -> None:
    """One draw, widened, has the variance xᵀ·P⁻¹·x + σ² of Bayesian linear regression."""
    draws = widened(regression.sample(1, **QUICK), 20_000)
    mixture = draws.mixture
    assert mixture is not None
    only = replace(draws, mixture=replace(mixture, weights=torch.tensor([0.0, 0.0, 1.0]).double()))
    x = regression.surface.data.inputs[:4]
    one = torch.ones(len(x), 1, dtype=torch.float64)
    jacobian = torch.cat([x, one], dim=1)  # weight, then bias
    exact = jacobian @ regression.curvature.precision_for(regression.surface).solve(jacobian).T
    expected = exact.diagonal() + regression.noise_std**2
    assert torch.allclose(only.predict(x).variance[:, 0], expected, rtol=0.02)


def test_weights_without_held_out_rows(regression: dims.Posterior) -> None:
    draws = regression.sample(2, **QUICK)
    assert draws.mixture.named_weights([]) == {"network": 0.0, "end": 0.5, "widened": 0.5}
    assert draws.mixture.tangents.shape == (2, 10, 3)
    assert "widened 0.50" in draws.summary()
    assert draws.predict(torch.ones(1, 2), weights="equal").samples.shape[0] == 2


def test_a_classifier_counts_its_network_too() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(30, 2, generator=generator, dtype=torch.float64)
    y = (x[:, 0] > 0).long()
    posterior = dims.fit(nn.Linear(2, 2).double(), (x, y), "classification", progress=False)
    weights = posterior.sample(2, **QUICK).mixture.named_weights([])
    assert weights == pytest.approx({"network": 1 / 3, "end": 1 / 3, "widened": 1 / 3})


def test_a_prior_at_the_given_weights_does_not_widen() -> None:
    model, x, y = _linear()
    posterior = dims.fit(model, (x, y), "regression", tune=True, refine=True, progress=False)
    assert posterior.sample(2, **QUICK).mixture is None
    assert posterior.sample(2, "la").mixture is None


def test_tangents_depend_on_the_draw_alone(regression: dims.Posterior) -> None:
    two, three = regression.sample(2, **QUICK), regression.sample(3, **QUICK)
    assert torch.allclose(two.mixture.tangents, three.mixture.tangents[:2], rtol=1e-9, atol=1e-12)


def test_files_and_selections_keep_widened_draws(
    regression: dims.Posterior, tmp_path: Path
) -> None:
    draws = regression.sample(3, **QUICK)
    x = torch.randn(4, 2, dtype=torch.float64)
    draws.save(tmp_path / "run.safetensors")
    loaded = dims.load(tmp_path / "run.safetensors", model=nn.Linear(2, 1).double())
    assert torch.equal(loaded.predict(x).variance, draws.predict(x).variance)
    some = draws.select([2, 0])
    assert torch.equal(some.mixture.tangents, draws.mixture.tangents[[2, 0]])
    assert some.predict(x).samples.shape[0] == 2 + 2 * 10


def test_held_out_rows_weigh_widened_draws(regression: dims.Posterior) -> None:
    _, x, y = _linear()
    weighed = regression.sample(3, **QUICK).stacked((x[:6], y[:6]))
    assert weighed.mixture.held_out == 6
    assert set(weighed.mixture.named_weights([])) == {"network", "end", "widened"}
    assert float(weighed.mixture.weights.sum()) == pytest.approx(1.0)


def test_a_module_of_all_draws_says_what_it_leaves_out(regression: dims.Posterior) -> None:
    with pytest.warns(UserWarning, match="widened ones are linearised"):
        regression.sample(2, **QUICK).to_ensemble()


@pytest.mark.parametrize("pseudo_count", [1.0, 0.5])
def test_the_usual_weights_count_as_rows_in_advance(pseudo_count: float) -> None:
    """All draws at the network itself: groups that answer alike keep the shares of the prior."""
    model, x, y = _linear()
    posterior = dims.fit(model, (x, y), "regression", progress=False)
    draws = posterior.sample(2, save_at=(0.1,), **QUICK)
    same = posterior.surface.initial.expand(2, -1)
    alike = replace(
        draws,
        parameters=same,
        saved=same.unsqueeze(1),
        mixture=replace(draws.mixture, tangents=torch.zeros_like(draws.mixture.tangents)),
    )
    weights = alike.stacked((x, y), pseudo_count=pseudo_count).mixture.named_weights([0.1])
    expected = {"network": 0.1, "t = 0.1": 0.1, "end": 0.4, "widened": 0.4}
    assert weights == pytest.approx(expected, abs=1e-5)


def test_without_a_pseudo_count_the_rows_decide_alone(regression: dims.Posterior) -> None:
    _, x, y = _linear()
    draws = regression.sample(2, **QUICK)
    groups = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    only = [replace(draws.mixture, weights=torch.tensor(each).double()) for each in groups]
    parts = [replace(draws, mixture=each).predict(x).log_scores(y) for each in only]
    labels = [number for number, part in enumerate(parts) for _ in part]
    expected = stack(torch.cat(parts).T, labels, pseudo_count=0.0).group_weights
    found = draws.stacked((x, y), pseudo_count=0.0).mixture.weights.tolist()
    assert found == pytest.approx(list(expected.values()), abs=1e-6)
