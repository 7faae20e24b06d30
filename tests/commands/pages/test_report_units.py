"""Predictions on a page are in a person's own units and names."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import dims
from dims.commands.pages.answers import Answers, add_findings, add_predictions
from dims.commands.pages.parts import decimals_of, in_figures
from dims.commands.pages.predicted import predicted
from dims.commands.pages.units import Units, units_of
from dims.model.training_data import TrainingData

QUICK = {"hidden": (3,), "epochs": 40, "draws": 4, "method": "la", "curvature": "diagonal"}


def houses(rows: int = 60, outputs: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.RandomState(1)
    x = pd.DataFrame({"living area": random.uniform(40, 200, rows)})
    prices = 100_000 + 1000 * x.to_numpy() + 9000 * random.randn(rows, 1)
    return x, prices[:, 0] if outputs == 1 else np.hstack([prices, prices / 1e6])


@pytest.fixture(scope="module")
def fitted():
    """A regressor of prices, some other rows, and what a page would show of it."""
    x, y = houses()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dims.DimsWarning)
        model = dims.DimsRegressor(**QUICK, random_state=0).fit(x[:40], y[:40])
    rows = TrainingData(*model.rows_for_network(x[40:], y[40:]))
    return model, x[40:], y[40:], predicted(model.draws_, model.posterior_.surface.data, rows)


def test_residuals_scores_and_rows_are_those_of_the_estimator(fitted):
    model, x, y, found = fitted
    mean, std = model.predict(x, return_std=True)
    assert found["missing"] == []
    (part,) = found["residuals"]
    assert part["x"] == pytest.approx(mean, rel=1e-4)
    assert part["y"] == pytest.approx((y - mean) / std, rel=1e-3, abs=1e-6)
    score = found["scores"][0]
    assert score["rmse"] == pytest.approx(np.sqrt(((y - mean) ** 2).mean()))
    assert score["nll"] == pytest.approx(-model.score_samples(x, y).mean())
    for row, _, answer, spread, target, area in found["disagreement"]["rows"]:
        exact = (mean[row], std[row], y[row], x["living area"].iloc[row])
        assert (answer, spread, target, area) == pytest.approx(exact, rel=1e-6)
    assert found["disagreement"]["names"] == ["living area"]


def test_bands_and_points_are_in_the_units_of_the_table(fitted):
    model, _, y, found = fitted
    grid = pd.DataFrame({"living area": found["grid"]})
    mean, std = model.predict(grid, return_std=True)
    (shown,) = found["functions"]
    assert shown["mean"] == pytest.approx(mean, rel=1e-4)
    assert shown["std"] == pytest.approx(std, rel=1e-4)
    assert [height for _, height in found["points"]["gap"]] == pytest.approx(y, rel=1e-6)
    assert found["function_axes"] == ["living area", "target"]


def test_the_page_names_the_target_and_its_units(fitted):
    *_, found = fitted
    found = {**found, "units": {**found["units"], "targets": ["price"]}}
    prior = {"prior_precision": 1.0, "noise_std": 0.5, "log_evidence": 0.0, "gradient_norm": 0.5}
    point = {"prior_precision": 1.0, "noise_std": 0.5, "log_evidence": 0.0, "gradient_norm": 0.5}
    curve = [{**point, "evaluations": 3, "chosen": True}]
    made = Answers()
    add_findings(made, {"advice": [], "prior": {**prior, "chosen": "minimum", "curve": curve}})
    add_predictions(made, found)
    facts, scale = dict(made.facts), found["units"]["scale"][0]
    assert facts["target"].startswith("price; the network learns (price − ")
    assert facts["noise"] == f"{0.5 * scale:.0f}, which is 0.5 for the network"
    tables = {table["id"]: table for table in made.tables}
    assert tables["priors"]["rows"][0][1] == pytest.approx(0.5 * scale, rel=1e-5)
    assert "in the units of price" in tables["disagreement"]["note"]
    assert [head.get("decimals") for head in tables["disagreement"]["columns"][1:5]] == [0] * 4
    assert made.sections["functions_note"].endswith("those of the table.")


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_several_outputs_have_units_of_their_own():
    x, y = houses(outputs=2)
    model = dims.DimsRegressor(**QUICK, random_state=0).fit(x[:40], y[:40])
    rows = TrainingData(*model.rows_for_network(x[40:], y[40:]))
    found = predicted(model.draws_, model.posterior_.surface.data, rows)
    mean = model.predict(x[40:])
    for column, part in enumerate(found["residuals"]):
        assert part["x"] == pytest.approx(mean[:, column], rel=1e-4)
        assert part["name"] == f"output {column}"
    # A mean over outputs has no units: these scores are those of standardised targets.
    standard = model.draws_.predict(rows.inputs).metrics(rows.targets)["ensemble"]
    assert found["scores"][0]["rmse"] == pytest.approx(standard["rmse"])
    made = Answers()
    add_predictions(made, found)
    note = next(table["note"] for table in made.tables if table["id"] == "held-out")
    assert "Of standardised targets" in note


def test_a_large_mean_beside_a_small_scale_keeps_its_digits():
    units = Units(mean=[1_000_000.0], scale=[10.0])
    values = torch.tensor([1_000_001.2, 1_000_003.4], dtype=torch.float64)
    assert units.rounded(values) == [1_000_001.2, 1_000_003.4]
    assert Units().rounded(values) == [1_000_000.0, 1_000_000.0]


@pytest.mark.parametrize("given", [(0.0, 0.0), (1.0,), "ab", (1.0, float("nan")), 3, ([1, 2], 1)])
def test_units_that_cannot_be_used_are_named(given):
    model = nn.Sequential(nn.Linear(1, 1))
    x = torch.linspace(-1, 1, 9).unsqueeze(1)
    model.targets_standardised_by = given
    surface = dims.LossSurface(model, (x, x), "regression")
    draws = dims.Draws.from_parameters(surface, torch.ones(1, 2))
    units, missing = units_of(draws, TrainingData(x, x))
    assert units == Units()
    assert "targets_standardised_by: it must be a mean and a positive scale" in missing[0]


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([201_354.7, 180_123.4], 0),
        ([2019.354, 2021.5], 3),
        ([0.25, -1.5], 3),
        ([1940.0, 2018.0], None),
        ([1.5, None], None),
        ([1e-9, 2e-9], None),
        ([0.5], 4),
        ([], None),
    ],
)
def test_numbers_show_four_digits_of_what_they_differ_by(values, decimals):
    assert decimals_of(values) == decimals


def test_a_number_has_the_digits_of_its_unit():
    assert in_figures(209_139.63, 65_665.2) == "209140"
    assert in_figures(1_000_005.0, 5.0) == "1000005.000"
    assert in_figures(2e-9, 1e-9) == "2e-09"
