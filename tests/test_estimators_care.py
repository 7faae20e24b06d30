"""Held-out rows of the estimators: training length, weights, and warnings about bad answers."""

from __future__ import annotations

import copy
import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import dims
from dims.estimators.care import _constant, judge, judge_by_evidence, split_rows
from dims.model.likelihoods import resolve_likelihood
from dims.sampling.draws.mixture import Mixture

QUICK: dict[str, Any] = {"hidden": (6,), "method": "la", "draws": 5, "random_state": 0}


def table(rows: int, noise_only: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    x = random.randn(rows, 4)
    signal = 0.0 if noise_only else 2 * np.sin(x[:, 0]) + x[:, 1]
    return x, signal + 0.5 * random.randn(rows)


def test_rows_are_split_into_three_parts_without_overlap() -> None:
    rows = split_rows(200, 0.2, seed=0)
    assert [len(part) for part in rows] == [160, 20, 20]
    assert sorted(torch.cat(list(rows)).tolist()) == list(range(200))
    assert not torch.equal(split_rows(200, 0.2, seed=1).judging, rows.judging)
    few = split_rows(60, 0.2, seed=0)
    assert [len(part) for part in few] == [60, 0, 0]


def test_a_good_answer_is_weighed_and_not_warned_about() -> None:
    x, y = table(200, noise_only=False)
    model = dims.DimsRegressor(**QUICK, epochs=200).fit(x, y)
    assert model.judgement_["gain_over_constant"] > 0.3
    assert model.judgement_["rows"] == 20
    assert model.draws_.mixture is not None
    assert model.draws_.mixture.held_out == 20
    assert model.posterior_.surface.points == 180


@pytest.mark.filterwarnings("ignore::dims.WorseThanBaselineWarning")
def test_training_stops_where_held_out_rows_are_best() -> None:
    """More than a hundred weights and 80 noisy rows: long training only fits the noise."""
    x, y = table(100, noise_only=False)
    given = QUICK | {"hidden": (20,), "weight_decay": 0.0, "learning_rate": 0.05}
    y = y + 1.5 * np.random.RandomState(1).randn(100)
    model = dims.DimsRegressor(**given, epochs=300)
    model.fit(x, y)
    assert 1 <= model.epochs_ < 150
    assert dims.DimsRegressor(**given, epochs=20, validation_fraction=0).fit(x, y).epochs_ == 20


@pytest.mark.parametrize("rows", [200, 50])
def test_noise_alone_as_target_is_answered_by_the_mean_or_warned_about(rows: int) -> None:
    x, y = table(rows, noise_only=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = dims.DimsRegressor(**QUICK, epochs=100).fit(x, y)
    warned = any(issubclass(w.category, dims.WorseThanBaselineWarning) for w in caught)
    fresh, truth = table(500, noise_only=True, seed=1)
    worse = (model.predict(fresh) - truth) ** 2 - (y.mean() - truth) ** 2
    assert warned or worse.mean() < 2 * worse.std() / math.sqrt(500)


def nonsense(task: str) -> tuple[dims.Draws, torch.Tensor, torch.Tensor]:
    """Draws of a network that is sure of what is not so, and rows to find out by."""
    torch.manual_seed(0)
    x = torch.randn(60, 2, dtype=torch.float64)
    y = x[:, :1].sign() if task == "regression" else (x[:, 0] > 0).long()
    model = torch.nn.Linear(2, 1).double()
    torch.nn.init.constant_(model.weight, -5.0)
    surface = dims.LossSurface(model, (x, y), resolve_likelihood(task, 1))
    thetas = surface.initial + 0.01 * torch.randn(4, surface.size, dtype=torch.float64)
    return dims.Draws.from_parameters(surface, thetas), x, surface.data.targets


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_an_answer_worse_than_a_constant_is_warned_about(task: str) -> None:
    draws, x, y = nonsense(task)
    name = "the mean" if task == "regression" else "the class frequencies"
    with pytest.warns(dims.WorseThanBaselineWarning, match=f"not better than {name}"):
        found = judge(draws.stacked((x, y)), x, y, y)
    assert found["gain_over_constant"] < 0


def test_a_loss_by_weighing_is_warned_about() -> None:
    draws, x, y = nonsense("regression")
    right = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    surface = draws.surface.with_settings()
    surface.vector = copy.copy(surface.vector)
    surface.vector.initial = right
    mixture = Mixture(right, torch.tensor([0.9, 0.1]), 60, -0.2, 0.05)
    good = dims.Draws.from_parameters(surface, right.repeat(4, 1))
    with pytest.warns(dims.WorseThanBaselineWarning, match="worse than the network alone"):
        judge(dataclasses.replace(good, mixture=mixture), x, y, y)


def test_evidence_below_that_of_a_constant_is_warned_about() -> None:
    draws, x, y = nonsense("regression")
    given = {"prior_precision": 1.0, "noise_std": 1.0}
    with pytest.warns(dims.NotAMinimumWarning):
        posterior = dims.fit(draws.surface.module.requires_grad_(), (x, y), "regression", **given)
    with pytest.warns(dims.WorseThanBaselineWarning, match="by the evidence"):
        assert judge_by_evidence(posterior, y)["gain_over_constant"] < 0


def test_the_constant_answer_is_the_normal_or_the_frequencies() -> None:
    known = torch.randn(50, 2, dtype=torch.float64) * 3 + 1
    targets = torch.randn(7, 2, dtype=torch.float64)
    scores, errors = _constant("regression", targets, known)
    normal = torch.distributions.Normal(known.mean(0), known.std(0, correction=0))
    torch.testing.assert_close(scores, normal.log_prob(targets).sum(-1))
    torch.testing.assert_close(errors, (targets - known.mean(0)).square().mean(-1))
    labels = torch.tensor([0, 0, 0, 1, 2, 2])
    scores, errors = _constant("classification", torch.tensor([0, 1, 2]), labels)
    expected = torch.tensor([4 / 9, 2 / 9, 3 / 9], dtype=torch.float64).log()
    torch.testing.assert_close(scores, expected)
    assert errors.tolist() == [0.0, 1.0, 1.0]


def test_the_evidence_of_a_linear_model_judges_as_the_closed_form_does() -> None:
    """log N(y; 0, σ²I + XXᵀ/δ), beside BIC's evidence of a mean and a variance."""
    torch.manual_seed(0)
    x = torch.randn(30, 2, dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-2.0]], dtype=torch.float64) + 0.1 * torch.randn(30, 1)
    model = torch.nn.Linear(2, 1, bias=False).double()
    given = {"prior_precision": 0.5, "noise_std": 0.2, "refine": True}
    posterior = dims.fit(model, (x, y), resolve_likelihood("regression", 1), **given)
    covariance = 0.04 * torch.eye(30, dtype=torch.float64) + x @ x.T / 0.5
    zero = torch.zeros(30, dtype=torch.float64)
    exact = torch.distributions.MultivariateNormal(zero, covariance).log_prob(y[:, 0])
    variance = float(y.var(correction=0))
    constant = -15 * (1 + math.log(2 * math.pi * variance)) - math.log(30)
    found = judge_by_evidence(posterior, y)["gain_over_constant"]
    assert found == pytest.approx((float(exact) - constant) / 30, abs=1e-6)


def test_a_fraction_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="validation_fraction: must lie in"):
        dims.DimsRegressor(**QUICK, validation_fraction=1.0).fit(*table(20, noise_only=False))
