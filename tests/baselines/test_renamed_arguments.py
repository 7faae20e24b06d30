"""The old names of arguments: they still work, with a warning that names the new one."""

from __future__ import annotations

import pytest
import torch
from baseline_problems import NOISE, PRIOR, linear_regression

import dims


def test_old_names_give_the_same_draws_and_a_warning() -> None:
    problem = linear_regression()
    model, data = problem.model, problem.data
    fixed = {"prior_precision": PRIOR, "noise_std": NOISE}
    posterior = dims.fit(model, data, "regression", **fixed)
    short = {"epochs": 3, "rank": 2, **fixed}
    for function, new, old in (
        (
            dims.swag,
            {"model": model, "data": data, "draws": 2, "learning_rate": 0.02, **short},
            {"train_data": "data", "count": "draws", "lr": "learning_rate"},
        ),
        (
            dims.last_layer,
            {"model": model, "data": data, "draws": 2, "tune": False, **fixed},
            {"train_data": "data", "count": "draws"},
        ),
        (dims.deep_ensemble, {"models": [model], "data": data, **fixed}, {"train_data": "data"}),
        (dims.hmc, {"posterior": posterior, "draws": 2, "warmup": 60}, {"count": "draws"}),
    ):
        likelihood = {} if function is dims.hmc else {"likelihood": "regression"}
        expected = function(**new, **likelihood)
        for before, after in old.items():
            given = {k: v for k, v in new.items() if k != after} | {before: new[after]}
            message = rf"{function.__name__}\({before}=...\) is deprecated.*use {after}="
            with pytest.warns(dims.DimsDeprecationWarning, match=message):
                found = function(**given, **likelihood)
            assert torch.equal(found.parameters, expected.parameters)
            with pytest.raises(TypeError, match=f"{before}: it is the old name of {after}"):
                function(**given, **{after: new[after]}, **likelihood)


def test_fit_takes_the_old_name_of_the_data() -> None:
    problem = linear_regression()
    fixed = {"likelihood": "regression", "prior_precision": PRIOR, "noise_std": NOISE}
    with pytest.warns(dims.DimsDeprecationWarning, match=r"fit\(train_data=...\).*use data="):
        posterior = dims.fit(problem.model, train_data=problem.data, **fixed)
    expected = dims.fit(problem.model, problem.data, **fixed)
    assert posterior.log_marginal_likelihood == expected.log_marginal_likelihood
