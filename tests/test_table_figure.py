"""The picture of a table's held-out rows: what it counts, for few rows and for many."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import dims
from dims.estimators import tables

CLASSES = ["down", "flat", "a name that is longer than its place"]


@pytest.fixture
def axes(monkeypatch):
    """The axes of the picture, which is not closed until the test ends."""
    kept: list = []
    monkeypatch.setattr(plt, "close", kept.append)
    yield lambda: kept[0].axes
    monkeypatch.undo()
    for figure in kept:
        plt.close(figure)


@pytest.mark.parametrize("rows", [40, 1000])
@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_classes_are_counted_by_confidence_and_by_class(tmp_path, axes, rows):
    random = np.random.RandomState(0)
    x = random.randn(rows + 60, 2)
    places = (x[:, 0] + random.randn(len(x)) > 0).astype(int) + (x[:, 1] > 0.5)
    kinds = [CLASSES[place] for place in places]
    lines = [f"{a},{b},{kind}" for (a, b), kind in zip(x, kinds, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,kind", *lines]))
    columns = {"a": "number", "b": "number"}
    table = tables.read(tmp_path / "t.csv", columns, "kind", "classification")
    known, held_out = table.split(rows / len(table))
    quick = {"epochs": 40, "draws": 2, "method": "la", "refine": False}
    network = dims.DimsClassifier((2,), **quick, random_state=0)
    model = make_pipeline(tables.preparation(columns), network).fit(known.inputs, known.target)
    file = tmp_path / "t.png"
    tables.picture(model, known, held_out, "kind", file, title="some\nlines")
    assert file.stat().st_size > 10_000
    left, right = axes()
    answers = model.predict(held_out.inputs)
    wrong, correct = (
        sum(bar.get_height() for bar in bars) for bars in left.containers
    )  # in the order of the legend
    assert wrong == (answers != held_out.target).sum()
    assert wrong + correct == rows
    assert sum(int(text.get_text()) for text in left.texts) == wrong
    assert [int(text.get_text()) for text in right.texts] == [
        int(((held_out.target == true) & (answers == answer)).sum())
        for true in sorted(CLASSES)
        for answer in sorted(CLASSES)
    ]


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_the_legend_covers_no_row(tmp_path, axes):
    x = np.random.RandomState(0).randn(40, 2)
    lines = [f"{a},{b},{a + b}" for a, b in x]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *lines]))
    columns = {"a": "number", "b": "number"}
    known, held_out = tables.read(tmp_path / "t.csv", columns, "y", "regression").split(0.5)
    quick = {"epochs": 40, "draws": 2, "method": "la", "refine": False}
    network = dims.DimsRegressor((2,), **quick, random_state=0)
    model = make_pipeline(tables.preparation(columns), network).fit(known.inputs, known.target)
    tables.picture(model, known, held_out, "y", tmp_path / "t.png")
    (axis,) = axes()
    (legend,) = axis.figure.legends
    assert not legend.get_window_extent().overlaps(axis.get_window_extent())
