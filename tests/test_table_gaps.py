"""Missing cells of a column that hardly any training row misses: intervals know what is unknown."""

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
KINDS = {"x1": "number", "x2": "number", "side": "category"}
QUICK: dict[str, Any] = {
    "hidden": (6,),
    "epochs": 300,
    "draws": 3,
    "method": "la",
    "refine": False,
    "random_state": 0,
}


def rows(count: int, seed: int) -> pd.DataFrame:
    """A target that depends strongly on x1."""
    random = np.random.RandomState(seed)
    made = pd.DataFrame({"x1": random.randn(count), "x2": random.randn(count)})
    made["side"] = random.choice(["N", "S"], count)
    made["y"] = 5 * made["x1"] + made["x2"] + (made["side"] == "S") + 0.3 * random.randn(count)
    return made


def saved(folder: Path, name: str, made: pd.DataFrame) -> Path:
    path = folder / name
    made.to_csv(path, index=False, float_format="%.6f")
    return path


def learned(folder: Path, made: pd.DataFrame, **preparation: Any) -> tuple[Any, tables.Table]:
    known = tables.read(saved(folder, "t.csv", made), KINDS, "y", "regression")
    prepared = tables.preparation(KINDS, **preparation)
    model = make_pipeline(prepared, dims.DimsRegressor(**QUICK))
    return model.fit(known.inputs, known.target), known


def predicted(model: Any, known: tables.Table, path: Path) -> pd.DataFrame:
    new = tables.read_inputs(path, KINDS)
    return pd.read_csv(tables.predict_file(model, new, path, "y", known))


def covered(made: pd.DataFrame, truth: pd.Series) -> float:
    return float(np.mean((made["lower 95%"] < truth) & (truth < made["upper 95%"])))


def test_intervals_hold_the_truth_where_an_important_number_is_missing(tmp_path):
    model, known = learned(tmp_path, rows(200, 0))
    new = rows(600, 1)
    whole = new.assign(x1=[None if i % 2 else value for i, value in enumerate(new["x1"])])
    made = predicted(model, known, saved(tmp_path, "new.csv", whole.drop(columns="y")))
    gaps = whole["x1"].isna()
    filled = whole.assign(x1=whole["x1"].fillna(known.inputs["x1"].median()))
    low, high = model[-1].interval(model[:-1].transform(filled[gaps]))
    assert np.mean((low < new["y"][gaps]) & (new["y"][gaps] < high)) < 0.4  # of the median
    assert 0.92 < covered(made[gaps], new["y"][gaps]) < 0.99
    # Whoever does not know x1 knows hardly more than the deviation of all targets.
    assert made["sd"][gaps].mean() < 1.2 * known.target.std()
    low, high = model[-1].interval(model[:-1].transform(whole[~gaps]))
    assert made["lower 95%"][~gaps].to_numpy() == pytest.approx(low, rel=1e-4, abs=1e-5)
    assert made["upper 95%"][~gaps].to_numpy() == pytest.approx(high, rel=1e-4, abs=1e-5)


def test_gaps_are_named_by_line_and_column(tmp_path, capsys):
    model, known = learned(tmp_path, rows(60, 0))
    path = tmp_path / "new.csv"
    path.write_text("x1,x2,side\n1,1,N\n,1,N\n1,one,N\n,1,Q\n")
    made = predicted(model, known, path)
    said = capsys.readouterr().out
    told = "missing, as in none of the rows that were learned from; its prediction averages over"
    for lines, name in (("lines 3, 5", "x1"), ("line 4", "x2")):
        assert f"note: {lines}, column {name!r}: {told} what they have\n" in said
    assert "note: line 5, column 'side': 'Q' was not in the rows that were learned from;" in said
    assert "filled with" not in said
    assert made["note"][1] == "x1 is missing"
    sd = made["sd"]
    assert sd[0] < sd[2] < min(sd[1], sd[3]) / 2  # x2 counts little, x1 much


def test_predictions_are_the_mean_over_quantiles_of_training_rows(tmp_path):
    model, known = learned(tmp_path, rows(100, 0))
    path = tmp_path / "new.csv"
    path.write_text("x1,x2,side\n,0.5,N\n")
    made = predicted(model, known, path)
    middles = np.sort(known.inputs["x1"])[2::5]  # of 20 parts
    each = pd.DataFrame({"x1": middles, "x2": 0.5, "side": "N"})
    assert made["predicted y"][0] == pytest.approx(model.predict(each).mean(), rel=1e-4)


@pytest.mark.parametrize("gaps", [1, 3, 9])
def test_a_gap_that_few_training_rows_have_is_not_learned_from_them(tmp_path, capsys, gaps):
    """The weights of its mark came from these rows alone: errors doubled, and nothing was said."""
    some, new = rows(200, 0), rows(400, 1)
    some.loc[: gaps - 1, "x1"] = None
    model, known = learned(tmp_path, some)
    assert list(model[0].get_feature_names_out())[:3] == ["x1", "x2", "side_N"]
    (note,) = tables.decisions(tables.preparation(KINDS), known)
    assert note.endswith(
        "; no input marks them, because it takes 10 rows to learn what a gap means"
    )
    made = predicted(model, known, saved(tmp_path, "new.csv", new.assign(x1=None, y=0)))
    assert 0.92 < covered(made, new["y"]) < 0.99
    assert np.std(made["predicted y"] - new["y"]) < 1.1 * 5
    assert abs(np.mean(made["predicted y"] - new["y"])) < 0.2 * 5
    assert f"column 'x1': missing, as in only {gaps} of the rows that" in capsys.readouterr().out
    assert made["note"].str.startswith("x1 is missing").all()


def test_a_category_that_few_training_rows_miss_is_averaged_over_too(tmp_path, capsys):
    some = rows(60, 0)
    some.loc[:3, "side"] = None
    model, known = learned(tmp_path, some)
    path = tmp_path / "new.csv"
    path.write_text("x1,x2,side\n1,2,\n1,2,N\n1,2,S\n")
    made = predicted(model, known, path)["predicted y"]
    share = (known.inputs["side"].dropna() == "S").mean()
    assert made[0] == pytest.approx((1 - share) * made[1] + share * made[2], abs=0.2)
    assert "column 'side': missing, as in only 4 of the rows" in capsys.readouterr().out


def test_columns_that_no_training_row_has_both_of_can_be_missing(tmp_path):
    some = rows(14, 0)
    some["x1"] = some["x1"].where(some.index < 7)
    some["x2"] = some["x2"].where(some.index >= 7)
    model, known = learned(tmp_path, some)
    path = tmp_path / "new.csv"
    path.write_text("x1,x2,side\n,,N\n")
    assert predicted(model, known, path)["predicted y"].notna().all()


def test_gaps_that_were_learned_from_are_filled_and_marked(tmp_path, capsys):
    some = rows(60, 0)
    some.loc[::6, "x1"] = None
    model, known = learned(tmp_path, some)
    path = tmp_path / "new.csv"
    path.write_text("x1,x2,side\n,2,N\n")
    made = predicted(model, known, path)
    assert "filled with the median of the training rows" in capsys.readouterr().out
    own = model.predict(tables.read_inputs(path, KINDS).inputs)
    assert made["predicted y"].to_numpy() == pytest.approx(own, rel=1e-4)


def test_a_number_of_your_own_is_what_a_gap_means(tmp_path, capsys):
    model, known = learned(tmp_path, rows(60, 0), fill=1.5)
    path = tmp_path / "new.csv"
    path.write_text("x1,x2,side\n,2,N\n1.5,2,N\n")
    made = predicted(model, known, path)
    assert made["predicted y"][0] == made["predicted y"][1]
    assert "filled with 1.5; no input marks them" in capsys.readouterr().out
