"""Cross-validation of a table: the scores of simpler models, and which one is the best."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import dims
from dims.commands import app
from dims.estimators import tables
from dims.estimators.tables.cross_validation import _best, _folds

pytestmark = pytest.mark.filterwarnings("ignore::dims.DimsWarning")
KINDS = {"x": "number", "side": "category"}
QUICK: dict[str, Any] = {"hidden": (3,), "epochs": 40, "draws": 3, "method": "la", "refine": False}


def table(folder: Path, task: str, rows: int = 40) -> tables.Table:
    random = np.random.RandomState(0)
    x, side = random.rand(rows), random.choice(list("NS"), rows)
    y: Any = 3 * x + (side == "S") + 0.1 * random.randn(rows)
    if task == "classification":
        y = np.where(y > 2, "high", "low")
        y[0] = "odd"  # a class that is not in all folds
    pd.DataFrame({"x": x, "side": side, "y": y}).to_csv(folder / "t.csv", index=False)
    return tables.read(folder / "t.csv", KINDS, "y", task)


def pipeline(task: str) -> Any:
    kind = dims.DimsRegressor if task == "regression" else dims.DimsClassifier
    return make_pipeline(tables.preparation(KINDS), kind(**QUICK, random_state=0))


def test_scores_are_those_of_scikit_learn(tmp_path):
    """RMSE of the linear model, by its own cross-validation of the same folds."""
    whole = table(tmp_path, "regression")
    said = tables.cross_validated(pipeline("regression"), whole)
    linear = make_pipeline(tables.preparation(KINDS), StandardScaler(), BayesianRidge())
    folds = GroupKFold(5, shuffle=True, random_state=0)
    how: dict[str, Any] = {"cv": folds, "scoring": "neg_root_mean_squared_error"}
    found = -cross_val_score(linear, whole.inputs, whole.target, groups=range(40), **how)
    shown = f"{found.mean():.3g} ± {found.std(ddof=1) / 5**0.5:.2g}"
    assert re.search(rf"ridge regression +\S+ ± \S+ +{re.escape(shown)}\n", said), said
    for name in ("network and draws", "network alone", "mean of training rows", "Gaussian process"):
        assert f"\n{name}  " in said
    assert "\nbest NLL: " in said
    assert "\nbest RMSE: " in said


def test_classes_are_cross_validated_too(tmp_path, capsys):
    whole = table(tmp_path, "classification")
    said = tables.cross_validated(pipeline("classification"), whole, "network")
    rows = {line[:22].strip(): line for line in said.splitlines()}
    assert {"network alone", "logistic regression", "Gaussian process"} < {*rows}
    assert float(rows["logistic regression"].split()[5]) > 0.7
    assert said.index("\nnetwork alone") < said.index("\nnetwork and draws")
    assert "\nbest accuracy: " in said
    assert "fold 5 of 5" in capsys.readouterr().out


def test_a_gaussian_process_is_left_out_where_it_takes_long(tmp_path, monkeypatch):
    module = sys.modules["dims.estimators.tables.cross_validation"]
    monkeypatch.setattr(module, "MOST_FOR_PROCESS", 20)
    said = tables.cross_validated(pipeline("regression"), table(tmp_path, "regression"))
    assert "without a Gaussian process, which takes long on more than 20 rows" in said
    assert "\nGaussian process" not in said


def test_copies_stay_in_one_fold(tmp_path):
    whole = table(tmp_path, "regression")
    frame = pd.read_csv(tmp_path / "t.csv")
    pd.concat([frame, frame[:10]]).to_csv(tmp_path / "t.csv", index=False)
    whole = tables.read(tmp_path / "t.csv", KINDS, "y", "regression")
    held: list[int] = []
    for known, held_out in _folds(whole, True):
        assert not {*known.target} & {*held_out.target}
        held += held_out.lines.tolist()
    assert sorted(held) == whole.lines.tolist()


@pytest.mark.parametrize(
    ("score", "values", "said"),
    [
        ("NLL", {"a": [1.0, 1.1, 0.9], "b": [0.5, 0.6, 0.5]}, "best NLL: b; ahead of a by 0.467"),
        ("accuracy", {"a": [0.9, 0.8], "b": [0.9, 0.7]}, "best accuracy: a; ahead of b by 0.05"),
    ],
)
def test_the_best_is_named_with_its_lead(score, values, said):
    found = _best(score, values)
    assert found.startswith(said)
    assert found.endswith("not significant") == (score == "accuracy")


def test_the_program_cross_validates(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "regression")
    assert CliRunner().invoke(app, ["init", "mine.py", "--csv", "t.csv"]).exit_code == 0
    small = 'hidden=(3,), method="la", refine=False'
    file = Path("mine.py")
    text = file.read_text().replace("hidden=(16,)", small).replace("epochs=300", "epochs=40")
    file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["mine.py", "--cross-validate"])
    runpy.run_path("mine.py", run_name="__main__")
    assert "40 rows in 5 folds, mean ± standard error:" in capsys.readouterr().out
    file.write_text(text.replace("draws=20", "draws=0"))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path("mine.py", run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: estimator(): draws: ")
