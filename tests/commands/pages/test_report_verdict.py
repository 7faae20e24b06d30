"""The verdict of held-out rows on a page: as the program of a table prints it, and with reasons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from report_problems import HOSTILE, wide_draws
from sklearn.pipeline import make_pipeline

import dims
from dims.baselines.verdict import scores_of
from dims.commands.pages.answers import Answers, add_predictions
from dims.commands.pages.predicted import _verdict, predicted
from dims.commands.pages.read import read_page
from dims.commands.pages.units import units_of
from dims.estimators import tables
from dims.model.training_data import TrainingData
from dims.prediction.predictive import RegressionPredictive

QUICK = {"hidden": (3,), "epochs": 60, "draws": 4, "method": "la", "refine": False}


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_it_is_that_of_the_program(tmp_path, task):
    """Of the same draws and rows, with the same scores."""
    random = np.random.RandomState(0)
    made = pd.DataFrame({"x": random.uniform(-2, 2, 120).round(3)})
    made["y"] = 700 + 90 * made["x"] + 30 * random.randn(120)
    kind, kinds = dims.DimsRegressor, {"x": "number"}
    if task == "classification":
        made["y"] = np.where(made["y"] > 700, "dear", "cheap")
        kind = dims.DimsClassifier
    made.to_csv(tmp_path / "t.csv", index=False)
    known, held_out = tables.read(tmp_path / "t.csv", kinds, "y", task).split(0.4)
    estimator = kind(**QUICK, random_state=0)
    model = make_pipeline(tables.preparation(kinds), estimator).fit(known.inputs, known.target)
    rows = TrainingData(*estimator.rows_for_network(held_out.inputs.to_numpy(), held_out.target))
    training = estimator.posterior_.surface.data
    found = predicted(estimator.draws_, training, rows)
    own = tables.evaluate(model, known, held_out)
    units, _ = units_of(estimator.draws_, training)
    scores = scores_of(units.predict(estimator.draws_, rows.inputs), units.rows(rows).targets)
    for name in ("log_scores", "errors", "covered"):
        wanted = getattr(own.scores["network and draws"], name)
        assert getattr(scores, name) == pytest.approx(wanted.astype(float), rel=1e-6)
    *warned, said = found["verdict"]
    assert warned == own.warnings()
    assert said.lower().split()[:3] == own.verdict().split(": ")[1].split()[:3]


def test_what_is_better_than_the_answer_is_named():
    truth = torch.linspace(-1, 1, 50).double().unsqueeze(1)

    def off_by(error: float) -> RegressionPredictive:
        return RegressionPredictive((truth + error).unsqueeze(0), 0.5)

    judged = {"DiMS": off_by(1.5), "network alone": off_by(0.0), "mean": off_by(0.7)}
    *warned, last = _verdict(judged, truth)
    assert "worse than the network alone (NLL 4.500 ± 0.000 higher): prefer that" in warned[0]
    assert "worse than the mean (NLL 3.520 ± 0.000 higher): do not trust it" in warned[1]
    assert warned[2].endswith("inside the interval: overconfident.")
    assert last == "See the warning; NLL 3.520 ± 0.000 higher than that of the mean."
    *warned, _ = _verdict(dict(reversed(judged.items())) | {"class": off_by(0.8)}, truth)
    assert len(warned) == 1  # of the network: the answer is better than the last


def test_few_rows_are_said_to_be_few():
    truth = torch.linspace(-1, 1, 8).double().unsqueeze(1)
    near, far = (RegressionPredictive((truth + e).unsqueeze(0), 0.5) for e in (0.0, 1.0))
    (said,) = _verdict({"DiMS": near, "network alone": near, "mean": far}, truth)
    assert said.startswith(
        "These rows support the answer (NLL 2.000 ± 0.000 lower than that of the mean)"
    )
    assert "8 rows are few: ask by cross-validation (--cross-validate of a program" in said


def test_files_of_an_earlier_version_have_no_verdict():
    made = Answers()
    add_predictions(made, {})
    assert (made.verdict, made.table_notes) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_begins_with_it_and_has_the_notes(look, tmp_path, width):
    page = read_page(wide_draws(tmp_path))
    steps = """
      const texts = (found) => [...document.querySelectorAll(found)].map((e) => e.innerText);
      return { ids: [...document.querySelectorAll("section")].map((part) => part.id),
               verdict: texts("#verdict p"), notes: texts("#notes li"),
               high: document.querySelector("#notes div").clientHeight };
    """
    seen = look(page, steps, width)
    assert seen["ids"][:4] == ["verdict", "overview", "advice", "notes"]
    assert seen["verdict"][0].startswith("By 3 held-out rows.")
    assert seen["verdict"][1] == f"WARNING: {HOSTILE}"
    assert len(seen["notes"]) == 40
    assert seen["high"] < 500  # many notes are scrolled
    assert seen["wide"] <= seen["room"]
    page["table_notes"] = page["table_notes"][:20]
    assert look(page, steps, width)["high"] > 500  # few stand there at full length
    assert seen["harm"] == 0
