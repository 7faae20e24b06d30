"""Levels that were not learned from: intervals cover the differences between those that were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import dims
from dims.estimators import tables

pytestmark = pytest.mark.filterwarnings("ignore::dims.DimsWarning")
PAY = {"Assistant": 30, "Analyst": 42, "Engineer": 52, "Manager": 64, "Director": 80}
KINDS = {"title": "category", "age": "number", "city": "category"}
QUICK: dict[str, Any] = {
    "hidden": (4,),
    "epochs": 150,
    "draws": 3,
    "method": "la",
    "refine": False,
    "random_state": 0,
}


@pytest.fixture(params=["Manager"])
def staff(tmp_path, request) -> tuple[Path, Path]:
    """Rows of four titles, and those of another, who earn what none of the others does."""
    random = np.random.RandomState(0)
    titles = random.choice(list(PAY), 240, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    made = pd.DataFrame({"title": titles, "age": random.randint(20, 60, 240)})
    made["city"] = random.choice(list("ABC"), 240)
    pay = made["title"].map(PAY) + 0.1 * made["age"] + 2 * (made["city"] == "A")
    made["pay"] = (1000 * (pay + 1.5 * random.randn(240))).round()
    manager = made["title"] == request.param
    made[~manager].to_csv(tmp_path / "staff.csv", index=False)
    made[manager].to_csv(tmp_path / "managers.csv", index=False)
    return tmp_path / "staff.csv", tmp_path / "managers.csv"


@pytest.mark.parametrize("staff", ["Manager", "Director"], indirect=True)
def test_the_interval_covers_a_title_that_was_left_out(staff, capsys):
    """It covered hardly any when such a row was all zeros to the network, be the title between or
    beyond the others."""
    known, managers = (tables.read(path, KINDS, "pay", "regression") for path in staff)
    model = make_pipeline(tables.preparation(KINDS), dims.DimsRegressor(**QUICK))
    model.fit(known.inputs, known.target)
    low, high = model[-1].interval(model[:-1].transform(managers.inputs))
    assert np.mean((low < managers.target) & (managers.target < high)) < 0.3
    found = tables.evaluate(model, known, managers)
    for name in ("network and draws", "network alone"):
        assert found.scores[name].covered.mean() > 0.9
    # The mean and deviation of all rows is as good as can be, where a title says nothing.
    own, _, constant = found.scores.values()
    assert own.log_scores.mean() > constant.log_scores.mean() - 0.5
    written = tables.predict_file(
        model, tables.read_inputs(staff[1], KINDS), staff[1], "pay", known
    )
    made = pd.read_csv(written)
    (title,) = set(managers.inputs["title"])
    assert (made["note"] == f"title {title!r} was not learned from").all()
    assert made["predicted pay"].to_numpy() == pytest.approx(
        found.predictions["predicted pay"].to_numpy()
    )
    said = capsys.readouterr().out
    assert f"column 'title': {title!r} was not in the rows that were learned from; its" in said
    assert (
        f"lines 2, 3, 4, 5, 6 and {len(managers) - 5} more, column 'title': {title!r} was" in said
    )
    tables.picture(model, known, managers, "pay", staff[1].with_suffix(".png"))


def test_known_rows_are_answered_as_before(staff):
    """Only those with other levels are averaged, wherever they stand."""
    known, _ = (tables.read(path, KINDS, "pay", "regression") for path in staff)
    model = make_pipeline(tables.preparation(KINDS), dims.DimsRegressor(**QUICK))
    model.fit(known.inputs, known.target)
    file = staff[0].with_name("new.csv")
    file.write_text("title,age,city\nAnalyst,30,A\nSmith,30,A\nAnalyst,30,Z\nSmith,30,\nAnalyst,9,")
    new = tables.read_inputs(file, KINDS)
    made = pd.read_csv(tables.predict_file(model, new, file, "pay", known))
    assert made["note"].fillna("").tolist() == [
        "",
        "title 'Smith' was not learned from",
        "city 'Z' was not learned from",
        "title 'Smith' was not learned from; city is missing",
        f"age is below all training rows ({known.inputs['age'].min():g}); city is missing",
    ]
    assert made["predicted pay"][0] == pytest.approx(
        model.predict(new.inputs.iloc[:1])[0], rel=1e-5
    )
    # A title matters much, a city little.
    sd = made["sd"]
    assert sd[0] < sd[2] < sd[1] / 3
    # By hand: each title as often as it was seen.
    titles = known.inputs["title"].value_counts(normalize=True)
    each = pd.DataFrame({"title": titles.index, "age": 30.0, "city": "A"})
    mean = float(titles.to_numpy() @ model.predict(each))
    assert made["predicted pay"][1] == pytest.approx(mean, rel=0.03)


def test_probabilities_of_classes_are_averaged(tmp_path):
    lines = [f"{'NESW'[i % 4]},{i % 7}.5,{'up' if i % 4 < 2 else 'down'}" for i in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["side,x,kind", *lines]))
    kinds = {"side": "category", "x": "number"}
    known = tables.read(tmp_path / "t.csv", kinds, "kind", "classification")
    model = make_pipeline(tables.preparation(kinds), dims.DimsClassifier(**QUICK))
    model.fit(known.inputs, known.target)
    (tmp_path / "new.csv").write_text("side,x\nQ,3\nN,3\n")
    new = tables.read_inputs(tmp_path / "new.csv", kinds)
    made = pd.read_csv(tables.predict_file(model, new, tmp_path / "new.csv", "kind", known))
    each = model.predict_proba(pd.DataFrame({"side": list("NESW"), "x": 3.0}))[:, 1]
    assert each.max() - each.min() > 0.5
    assert made["probability up"].tolist() == pytest.approx([each.mean(), each[0]], rel=1e-4)


def test_levels_that_were_learned_from_may_be_missing_ones(staff, tmp_path):
    path, _ = staff
    some = pd.read_csv(path)
    some.loc[::10, "city"] = None
    some.to_csv(path, index=False)
    new = tmp_path / "new.csv"
    some.drop(columns="pay").head(4).assign(city=["Z", "A", "Z", None]).to_csv(new, index=False)
    known = tables.read(path, KINDS, "pay", "regression")
    model = make_pipeline(tables.preparation(KINDS), dims.DimsRegressor(**QUICK))
    model.fit(known.inputs, known.target)
    made = pd.read_csv(
        tables.predict_file(model, tables.read_inputs(new, KINDS), new, "pay", known)
    )
    assert made["predicted pay"].notna().all()
    assert made["note"][[0, 2]].str.contains("city 'Z' was not learned from").all()
