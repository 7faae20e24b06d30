"""SWAG against SGD by torch alone, with moments taken from the recorded iterates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import baseline_problems as problems
import pytest
import torch
from torch import Tensor

import dims
from dims.baselines import swag
from dims.baselines.runaway import check_loss, constant_loss, largest_loss
from dims.baselines.swag import Training, collect_moments

RUN: dict[str, Any] = {"epochs": 9, "learning_rate": 0.02, "batch_size": 8, "rank": 4}


def recorded_iterates(momentum: float, seed: int, effective: float, scale: float) -> Tensor:
    """The weights after every epoch and before the first, on a quadratic, by hand."""
    problem = problems.linear_regression()
    x, y = problem.data
    design = torch.cat([x, torch.ones(25, 1, dtype=torch.float64)], 1)
    theta, velocity = problem.mean.clone(), torch.zeros(3, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    iterates = [theta]
    for _ in range(9):
        order = torch.randperm(25, generator=generator)
        for start in range(0, 25, 8):
            batch = order[start : start + 8]
            residual = design[batch] @ theta - y[batch, 0]
            data = effective / len(batch) * design[batch].T @ residual / problems.NOISE**2
            velocity = momentum * velocity + scale * (data + problems.PRIOR * theta) / 25
            theta = theta - 0.02 * velocity
        iterates.append(theta)
    return torch.stack(iterates)


@pytest.mark.parametrize(
    ("momentum", "seed", "effective", "scale"),
    [(0.0, 0, 25.0, 1.0), (0.9, 5, 25.0, 1.0), (0.5, 1, 10.0, 0.5)],
)
def test_moments_are_those_of_the_recorded_iterates(
    momentum: float, seed: int, effective: float, scale: float
) -> None:
    problem = problems.linear_regression()
    surface = dims.LossSurface(
        problem.model,
        problem.data,
        dims.Gaussian(problems.NOISE),
        problems.PRIOR,
        effective_points=effective,
        loss_scale=scale,
    )
    moments = collect_moments(surface, Training(**RUN, momentum=momentum), seed)
    iterates = recorded_iterates(momentum, seed, effective, scale)
    torch.testing.assert_close(moments.mean, iterates.mean(0))
    torch.testing.assert_close(moments.variance, iterates.var(0, correction=0))
    last = [iterates[n] - iterates[: n + 1].mean(0) for n in range(6, 10)]
    torch.testing.assert_close(moments.deviations, torch.stack(last))


def test_draws_have_the_covariance_of_the_formula() -> None:
    problem = problems.linear_regression()
    options: dict[str, Any] = {
        "noise_std": problems.NOISE,
        "prior_precision": problems.PRIOR,
        **RUN,
    }
    draws = swag(problem.model, problem.data, "regression", 20_000, **options)
    iterates = recorded_iterates(0.0, 0, 25.0, 1.0)
    last = torch.stack([iterates[n] - iterates[: n + 1].mean(0) for n in range(6, 10)])
    covariance = 0.5 * torch.diag(iterates.var(0, correction=0)) + last.T @ last / (2 * 3)
    # Whitened, every entry of the sampled covariance is off by about √(2/S) = 0.01.
    root = torch.linalg.inv(torch.linalg.cholesky(covariance))
    white = (draws.parameters - iterates.mean(0)) @ root.T
    assert float(white.mean(0).abs().max()) < 5 / 20_000**0.5
    error = white.T @ white / 20_000 - torch.eye(3, dtype=torch.float64)
    assert float(error.abs().max()) < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_seeds_reproduce_and_nothing_else_is_touched(dtype: torch.dtype) -> None:
    model = problems.network(0, outputs=3, dtype=dtype)
    with problems.untouched(model):
        draws = swag(model, problems.class_data(), "classification", 6, **RUN, seed=3)
    torch.rand(5)
    with torch.no_grad():
        again = swag(model, problems.class_data(), "classification", 6, **RUN, seed=3)
    assert torch.equal(again.parameters, draws.parameters)
    other = swag(model, problems.class_data(), "classification", 6, **RUN, seed=4)
    assert not torch.equal(other.parameters, draws.parameters)
    assert draws.method == "swag"
    assert draws.parameters.dtype == dtype
    assert torch.isfinite(draws.loss).all()
    assert draws.predict(problems.class_data()[0].to(dtype)).probabilities.shape == (21, 3)


def test_draws_are_saved_with_their_settings(tmp_path: Path) -> None:
    draws = swag(
        problems.network(), problems.regression_data(), "regression", 3, **RUN, parameters=["2"]
    )
    assert draws.parameters.shape == (3, 6)
    draws.save(tmp_path / "swag.safetensors")
    loaded = dims.load(tmp_path / "swag.safetensors", model=problems.network())
    assert loaded.settings == {**RUN, "momentum": 0.0}
    x = problems.randn(4, 3)
    assert torch.equal(loaded.predict(x).samples, draws.predict(x).samples)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"draws": 0}, "draws"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": 1e40}, "diverged in epoch"),
        ({"epochs": 0}, "epochs"),
        ({"rank": 1}, "rank"),
        ({"rank": 10}, "rank: 10 deviations, but 9 epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"momentum": 1.0}, "momentum"),
        ({"seed": -1}, "seed"),
        ({"noise_std": -1.0}, "noise_std"),
        ({"learning_rate": []}, "learning_rate: there are none"),
        ({"validation": problems.regression_data()}, "validation: one learning rate"),
    ],
)
def test_bad_arguments_are_refused(wrong: dict[str, Any], reason: str) -> None:
    problem = problems.linear_regression()
    with pytest.raises(ValueError, match=reason):
        swag(problem.model, problem.data, "regression", **{"draws": 2, **RUN, **wrong})


def wide_network() -> tuple[torch.nn.Module, tuple[Tensor, Tensor]]:
    """A ReLU network and data on which large steps run away without ever being infinite."""
    x = problems.randn(40, 3, seed=1)
    y = 2 * x[:, :1].abs() - 1
    return problems.network(2, activation=torch.nn.ReLU), (x, y)


@pytest.mark.parametrize("rate", [3.0, 30.0, 1e3])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_draws_that_ran_away_are_refused(rate: float, task: str) -> None:
    model, (x, y) = wide_network()
    if task == "classification":
        model, y = problems.network(2, outputs=2, activation=torch.nn.ReLU), (y[:, 0] > 0).long()
        rate = 300 * rate
    with pytest.raises(dims.DivergedError, match=r"learning_rate: with .*lower it"):
        swag(model, (x, y), task, 10, epochs=10, rank=5, learning_rate=rate, momentum=0.9)


def test_draws_are_checked_and_not_only_iterates() -> None:
    problem = problems.linear_regression()
    surface = dims.LossSurface(
        problem.model, problem.data, dims.Gaussian(problems.NOISE), problems.PRIOR
    )
    good = surface.value(surface.initial.unsqueeze(0))
    check_loss(surface, good, 0.1)
    for worse in (float("nan"), float("inf"), 1e19, largest_loss(surface) * 1.001):
        with pytest.raises(dims.DivergedError, match="1 of 2 draws ran away"):
            check_loss(surface, torch.cat([good, torch.full_like(good, worse)]), 0.1)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_best_constant_prediction_has_its_closed_form(task: str, scale: float) -> None:
    """The mean and its variance, or the shares of the classes and their entropy."""
    x = problems.randn(30, 3)
    if task == "regression":
        model, y = problems.network(), 3 + problems.randn(30, 1, seed=2)
        terms = 0.5 * (y - y.mean()).square().mean() / 0.4**2
        surface = dims.LossSurface(model, (x, y), dims.Gaussian(0.4), 0.0, loss_scale=scale)
    else:
        model, y = problems.network(outputs=3), (torch.arange(30) % 7).clamp(max=2)
        shares = torch.bincount(y).double() / 30
        terms = -(shares * shares.log()).sum()
        surface = dims.LossSurface(model, (x, y), task, 0.0, loss_scale=scale)
    assert constant_loss(surface) == pytest.approx(30 * scale * float(terms), rel=1e-5)
    start = float(surface.value(surface.initial.unsqueeze(0)))
    above = min(max(constant_loss(surface) - start, 0.0), 300 * scale)
    assert largest_loss(surface) == pytest.approx(start + 30 * scale + above)


def test_noise_alone_as_target_is_not_refused() -> None:
    model, (x, _) = wide_network()
    y = problems.randn(40, 1, seed=9)
    assert len(swag(model, (x, y), "regression", 10, epochs=10, rank=5, learning_rate=0.01)) == 10


def test_the_learning_rate_is_chosen_on_unseen_rows() -> None:
    model, (x, y) = wide_network()
    unseen = problems.randn(30, 3, seed=7)
    rows = unseen, 2 * unseen[:, :1].abs() - 1
    options: dict[str, Any] = {"epochs": 10, "rank": 5, "noise_std": 0.5}
    parts: list[float] = []
    draws = swag(
        model,
        (x, y),
        "regression",
        10,
        **options,
        learning_rate=[1e-4, 1e-2, 100.0],
        validation=rows,
        progress=parts.append,
    )
    assert 2 / 3 <= parts[-1] < 1  # the last rate ran away
    assert parts == sorted(parts)
    scores: dict[float, float | None] = {100.0: None}
    alone = {}
    for rate in (1e-4, 1e-2):
        alone[rate] = swag(model, (x, y), "regression", 10, **options, learning_rate=rate)
        scores[rate] = alone[rate].predict(rows[0]).metrics(rows[1])["ensemble"]["nll"]
    tried = {entry["learning_rate"]: entry["nll"] for entry in draws.settings["tried"]}
    assert tried == pytest.approx(scores)
    best = min(alone, key=lambda rate: scores[rate] or 0.0)
    assert draws.settings["learning_rate"] == best
    assert torch.equal(draws.parameters, alone[best].parameters)
    several: dict[str, Any] = {**options, "learning_rate": [100.0, 200.0]}
    with pytest.raises(dims.DivergedError, match="ran away at 100, 200"):
        swag(model, (x, y), "regression", 10, **several, validation=rows)
    for wrong, reason in ((None, "give rows"), (0.1, "already seen")):
        with pytest.raises(ValueError, match=f"validation: .*{reason}"):
            swag(model, (x, y), "regression", 10, **several, validation=wrong)
