"""What is written for rows to be predicted: their own columns, probabilities, notes, a verdict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pandas")
from dims.baselines.verdict import Scores
from dims.estimators.tables import Format, Table
from dims.estimators.tables.evaluation import Evaluation
from dims.estimators.tables.oddities import oddities, row_notes
from dims.estimators.tables.predictions import _rounded
from dims.estimators.tables.preparation import preparation
from dims.estimators.tables.typed import read, read_inputs
from dims.estimators.tables.unlearned import unlearned


def of(inputs: dict[str, list[object]]) -> Table:
    frame = pd.DataFrame(inputs)
    frame = frame.astype({name: object for name in frame if frame[name].dtype.kind != "f"})
    frame = frame.where(frame.notna(), None)
    return Table(frame, np.empty(0), np.arange(len(frame)) + 2, frame, Format(",", ".", "utf-8"))


def test_rows_unlike_those_that_were_learned_from_have_a_note() -> None:
    known = of({"area": [50.0, 80.0, 208.0], "town": ["A", "B", "C"]})
    new = of({"area": [900.0, np.nan, 60.0, 10.0], "town": ["A", None, "B", "A"]})
    made = preparation({"area": "number", "town": "category"}).fit(known.inputs)
    assert row_notes(oddities(unlearned(made, known, new), known, new), len(new)) == [
        "area is above all training rows (208)",
        "area is missing; town is missing",
        "",
        "area is below all training rows (50)",
    ]


def test_identifiers_stay_beside_the_predictions(tmp_path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("id,size\nL-1,3\nL-2,4\n")
    table = read_inputs(path, {"id": "leave out", "size": "number"})
    assert list(table.inputs) == ["size"]
    assert table.text["id"].tolist() == ["L-1", "L-2"]


def test_a_table_that_was_split_is_put_together_again(tmp_path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("id,size,y\n" + "".join(f"L{n},{n},{2 * n}\n" for n in range(20)))
    whole = read(path, {"id": "leave out", "size": "number"}, "y", "regression")
    known, held_out = whole.split(0.3)
    again = known.with_rows(held_out)
    assert again.lines.tolist() == whole.lines.tolist()
    assert again.target.tolist() == whole.target.tolist()
    assert again.inputs.equals(whole.inputs)
    assert again.text.equals(whole.text)


def test_few_digits_are_written() -> None:
    made = _rounded({"prediction": np.array([489.2761977, 1.23456789e-7]), "class": ["a", "b"]})
    assert made["prediction"].tolist() == [489.276, 1.23457e-07]


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        (np.full(40, 0.5) + np.linspace(-0.1, 0.1, 40), "these rows support the answer (NLL 0.500"),
        (np.linspace(-3, 3.2, 40), "neither support nor refute"),
        (np.full(8, 0.5) + np.linspace(-0.1, 0.1, 8), "8 rows are few: ask by cross-validation"),
        (np.full(40, -0.5), "see the warning; NLL 0.500 ± 0.000 higher"),
    ],
)
def test_the_verdict_follows_from_the_gain_over_the_constant(gains, said) -> None:
    zero, yes = np.zeros(len(gains)), np.ones(len(gains))
    scores = {
        "network and draws": Scores(gains, zero, yes),
        "network alone": Scores(gains, zero, yes),
        "mean of training rows": Scores(zero, yes, yes),
    }
    made = Evaluation("regression", scores, pd.DataFrame({"line": zero}), "")
    assert said in made.verdict()
    assert made.verdict() == made.summary().splitlines()[-1]
