"""Held-out rows of the estimators: training length, weights, and warnings about bad answers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import dims
from cases import first
from dims.estimators.care import (
    complaint_about,
    constant_scores,
    evidence_gain,
    held_out_gains,
    split_rows,
    trustworthy,
)
from dims.model.likelihoods import resolve_likelihood
from dims.sampling.evidence_path import AT_AN_END, STOPPED

QUICK: dict[str, Any] = {
    "hidden": (6,),
    "activation": "tanh",
    "method": "la",
    "draws": 5,
    "random_state": 0,
}


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


@pytest.fixture(scope="module")
def model() -> dims.DimsRegressor:
    return dims.DimsRegressor(**QUICK, epochs=100).fit(*table(200, noise_only=False))


def test_a_good_answer_is_weighed_and_not_warned_about(model: dims.DimsRegressor) -> None:
    assert model.judgement_["gain_over_constant"] > 0.3
    assert model.judgement_["rows"] == 20
    assert model.draws_.mixture is not None
    assert model.draws_.mixture.held_out == 20
    assert model.posterior_.surface.points == 180


def test_training_stops_where_held_out_rows_are_best() -> None:
    """More than a hundred weights and 80 noisy rows: long training only fits the noise."""
    x, y = table(100, noise_only=False)
    given = QUICK | {"hidden": (20,), "weight_decay": 0.0, "learning_rate": 0.05}
    y = y + 1.5 * np.random.RandomState(1).randn(100)
    model = dims.DimsRegressor(**given, epochs=300)
    model.train(x, y)
    assert 1 <= model.epochs_ < 150
    unsplit = dims.DimsRegressor(**given, epochs=20, validation_fraction=0)
    unsplit.train(x, y)
    assert unsplit.epochs_ == 20


@pytest.mark.parametrize("rows", first([50, 200]))
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
def test_held_out_rows_see_an_answer_worse_than_a_constant(task: str) -> None:
    draws, x, y = nonsense(task)
    found = held_out_gains(draws.stacked((x, y)), x, y, y)
    assert found["gain_over_constant"] < 0
    assert found["rows"] == len(x)
    # Even where the evidence is all for it.
    sure = {"evidence_over_constant": 50.0, "gain_on_training_rows": 1.0}
    assert not trustworthy(found | sure)


FOUND = {
    "rows": 20.0,
    "gain_over_constant": 0.3,
    "gain_over_constant_error": 0.1,
    "error_saved": 0.2,
    "error_saved_error": 0.1,
    "gain_over_network": 0.0,
    "gain_over_network_error": 0.01,
    "evidence_over_constant": 0.0,
    "gain_on_training_rows": 0.4,
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, ""),  # three standard errors on held-out rows
        ({"gain_over_constant": 0.15}, "not clearly better than the mean by 20 held-out rows"),
        ({"gain_over_constant": 0.15, "evidence_over_constant": 4.0}, ""),
        ({"gain_over_constant": -0.05, "evidence_over_constant": 4.0}, ""),
        ({"gain_over_constant": -0.15, "evidence_over_constant": 40.0}, "not clearly better"),
        ({"error_saved": -0.15, "evidence_over_constant": 40.0}, "not clearly better"),
        ({"error_saved": -0.05}, "not clearly better"),
        ({"gain_over_network": -0.15}, "alone (-0.150 ± 0.010 nats a row)"),
        ({"gain_over_network": -0.05, "rows": 200.0}, "worse than the network alone"),
        ({"gain_over_network": -0.025, "rows": 2000.0}, ""),
        # Two tables on which the draws were better by 0.56 and 0.02 nats on fresh rows.
        ({"rows": 10.0, "gain_over_network": -0.343, "gain_over_network_error": 0.125}, ""),
        ({"rows": 25.0, "gain_over_network": -0.015, "gain_over_network_error": 0.004}, ""),
        ({"gain_over_network": -0.005, "gain_over_network_error": 0.001}, ""),
        ({"rows": 0.0}, "too few rows to hold some out"),
        ({"rows": 0.0, "evidence_over_constant": 4.0}, ""),
        (
            {"rows": 0.0, "evidence_over_constant": 4.0, "gain_on_training_rows": -0.1},
            "-0.100 nats a row on training rows",
        ),
    ],
)
def test_what_is_warned_about(change: dict[str, float], complaint: str) -> None:
    said = complaint_about(FOUND | change, "regression")
    assert (complaint in said) if complaint else not said


@pytest.mark.filterwarnings("ignore::dims.EvidenceWarning")  # noise has no best prior
def test_an_answer_to_noise_is_warned_about() -> None:
    x, y = table(120, noise_only=True)
    with pytest.warns(dims.WorseThanBaselineWarning, match="do not trust it"):
        dims.DimsRegressor(**QUICK, epochs=100).fit(x, y)


def test_the_constant_answer_is_the_normal_or_the_frequencies() -> None:
    known = torch.randn(50, 2, dtype=torch.float64) * 3 + 1
    targets = torch.randn(7, 2, dtype=torch.float64)
    scores, errors = constant_scores("regression", targets, known)
    normal = torch.distributions.Normal(known.mean(0), known.std(0, correction=0))
    torch.testing.assert_close(scores, normal.log_prob(targets).sum(-1))
    torch.testing.assert_close(errors, (targets - known.mean(0)).square().mean(-1))
    labels = torch.tensor([0, 0, 0, 1, 2, 2])
    scores, errors = constant_scores("classification", torch.tensor([0, 1, 2]), labels)
    expected = torch.tensor([4 / 9, 2 / 9, 3 / 9], dtype=torch.float64).log()
    torch.testing.assert_close(scores, expected)
    assert errors.tolist() == [0.0, 1.0, 1.0]


def test_the_evidence_of_a_linear_model_judges_as_the_closed_form_does() -> None:
    """log N(y; 0, σ²I + XXᵀ/δ), beside the largest likelihood of a mean and a variance."""
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
    constant = -15 * (1 + math.log(2 * math.pi * variance))
    assert evidence_gain(posterior, y) == pytest.approx(float(exact) - constant, abs=1e-5)


def test_gains_on_held_out_rows_are_those_of_the_estimator(model: dims.DimsRegressor) -> None:
    """The same numbers by `score_samples`, but for the cross-validation of the weights."""
    rows = model.posterior_.validation
    assert rows is not None
    fresh, truth = rows.inputs.numpy(), rows.targets[:, 0].numpy() * model.target_scale_
    truth = truth + model.target_mean_
    own = model.score_samples(fresh, truth)
    alone = model.network_only().score_samples(fresh, truth)
    known = model.posterior_.surface.data.targets[:, 0].numpy() * model.target_scale_
    known = known + model.target_mean_
    plain = -0.5 * ((truth - known.mean()) ** 2 / known.var() + np.log(2 * np.pi * known.var()))
    found = model.judgement_
    gain = (alone - plain).mean() + found["gain_over_network"]
    assert found["gain_over_constant"] == pytest.approx(gain)
    error = (own - plain).std(ddof=1) / math.sqrt(len(own))
    assert found["gain_over_constant_error"] == pytest.approx(error)
    saved = (truth - known.mean()) ** 2 - (truth - model.predict(fresh)) ** 2
    assert found["error_saved"] * model.target_scale_[0] ** 2 == pytest.approx(saved.mean())


def test_a_fraction_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="validation_fraction: must lie in"):
        dims.DimsRegressor(**QUICK, validation_fraction=1.0).fit(*table(20, noise_only=False))


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
def test_draws_that_do_not_fit_the_few_rows_are_warned_about() -> None:
    """A line of forty points is learned, but Laplace draws at a slope leave it far behind."""
    x = np.linspace(0, 10, 40)[:, None]
    y = 5 * np.exp(-x[:, 0] / 3) + 0.2 * np.random.RandomState(0).randn(40)
    given = QUICK | {"hidden": (16,), "epochs": 100, "refine": False}
    with pytest.warns(dims.WorseThanBaselineWarning, match="nats a row on training rows"):
        model = dims.DimsRegressor(**given).fit(x, y)
    assert model.judgement_["evidence_over_constant"] > 3
    assert model.network_only().score(x, y) > 0.9


@pytest.mark.filterwarnings("ignore::dims.WorseThanBaselineWarning")
def test_warnings_of_the_fit_name_arguments_of_the_estimator() -> None:
    """An estimator trains its network, so none looks untrained."""
    x, y = table(60, noise_only=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dims.DimsRegressor(**QUICK | {"epochs": 3, "refine": False}).fit(x, 5 + y)
        dims.DimsRegressor(**QUICK | {"epochs": 0}).fit(x, y)
    texts = [str(w.message) for w in caught]
    assert any("refine=True chooses prior and noise at a minimum" in text for text in texts), texts
    assert not [text for text in texts if "tune=" in text or "dims.fit" in text]
    assert not [text for text in texts if "untrained" in text]


def test_the_advice_of_the_evidence_names_an_argument_that_estimators_have() -> None:
    for text in (AT_AN_END, STOPPED):
        assert "such as prior_precision=1.0" in text
        assert "dims.fit" not in text
