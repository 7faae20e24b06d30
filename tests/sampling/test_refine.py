"""`refine`: a budget, progress, an outcome, and never a steeper place than the start."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.errors import NotAMinimumWarning
from dims.sampling.refine import refine
from dims.sampling.settle import SettleStatus


def valley(theta: Tensor) -> Tensor:
    """Rosenbrock's: from (−1, 1) the floor falls along a curve, and the slope across it varies."""
    return (1 - theta[0]) ** 2 + 100 * (theta[1] - theta[0] ** 2) ** 2


START = torch.tensor([-1.0, 1.0], dtype=torch.float64)


@pytest.mark.parametrize("budget", range(2, 60, 8))
def test_it_never_ends_steeper_or_higher_than_it_began(budget: int) -> None:
    end = refine(dims.Surface(valley), START, budget, progress=False)
    assert end.gradient_norm <= end.start_gradient_norm * (1 + 1e-12)
    assert end.loss <= end.start_loss
    loss, gradient = dims.Surface(valley).value_and_grad(end.positions)
    torch.testing.assert_close(end.loss, loss)
    torch.testing.assert_close(end.gradient_norm, gradient.norm(dim=-1))


def test_progress_is_the_part_of_the_budget_that_is_spent() -> None:
    seen: list[float] = []
    refine(dims.Surface(valley), START, 30, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[0] < 0.1
    assert seen[-1] == 1.0


def test_settling_alone_would_end_steeper() -> None:
    """The premise of the test above."""
    ends = [
        dims.settle(dims.Surface(valley), START[None], "full", max_evaluations=budget)
        for budget in range(2, 60, 8)
    ]
    assert any(end.gradient_norm > 2 * end.start_gradient_norm for end in ends)


def test_with_enough_budget_it_is_the_minimum_below() -> None:
    end = refine(dims.Surface(valley), START, progress=False)
    assert end.status == [SettleStatus.SETTLED]
    torch.testing.assert_close(
        end.positions[0], torch.ones(2, dtype=torch.float64), atol=1e-5, rtol=0
    )


def rough() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double().eval()
    x = torch.randn(30, 2, dtype=torch.float64)
    return model, (x, (x[:, :1] * x[:, 1:]).sin())


SETTINGS = {"prior_precision": 0.01, "noise_std": 0.05}


def test_fit_keeps_to_the_budget_and_reports_the_outcome() -> None:
    model, data = rough()
    with pytest.warns(NotAMinimumWarning, match=r"after \d+ gradients .*refine=\d+ goes on"):
        posterior = dims.fit(model, data, "regression", **SETTINGS, refine=40)
    assert posterior.refinement is not None
    assert posterior.refinement.status == [SettleStatus.BUDGET_SPENT]
    krylov = posterior.surface.size  # a model that has begun is finished
    assert posterior.refinement.evaluations <= 44 + 2 * krylov
    assert posterior.gradient_norm == pytest.approx(float(posterior.refinement.gradient_norm))
    assert posterior.gradient_norm < float(posterior.refinement.start_gradient_norm)


def test_a_minimum_is_reported_without_a_warning() -> None:
    model, data = rough()
    with warnings.catch_warnings():
        warnings.simplefilter("error", dims.NotAMinimumWarning)
        settings = {"prior_precision": 0.1, "noise_std": 10.0}
        posterior = dims.fit(model, data, "regression", **settings, refine=True)
        loose = dims.fit(model, data, "regression", **settings)
    assert posterior.refinement is not None
    assert posterior.refinement.status == [SettleStatus.SETTLED]
    assert loose.refinement is None


@pytest.mark.parametrize("budget", [0, -3, 2.5, "yes"])
def test_a_budget_that_is_none_is_named(budget: object, unchecked: None) -> None:
    model, data = rough()
    with pytest.raises(ValueError, match="refine: expected a whole number"):
        dims.fit(model, data, "regression", **SETTINGS, refine=budget)
