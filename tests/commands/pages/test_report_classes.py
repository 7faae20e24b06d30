"""Right and wrong answers about classes are counted, by their confidence and by their class."""

from __future__ import annotations

import json

import pytest
import torch

from dims.commands.pages.classes import confusions_table, right_and_wrong
from dims.commands.pages.units import Units
from dims.prediction.predictive import ClassificationPredictive


def answers(classes: int, rows: int) -> tuple[ClassificationPredictive, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(3, rows, classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (rows,), generator=generator)
    return ClassificationPredictive(logits.log_softmax(-1)), labels


@pytest.mark.parametrize("rows", [40, 1000])
def test_answers_are_counted_by_confidence_and_by_class(rows):
    predictive, labels = answers(3, rows)
    found = right_and_wrong(predictive, labels, Units(classes=["a", "b", "c"]))["classes"]
    guess, sure = predictive.mean.argmax(1), predictive.mean.amax(1)
    for place in range(10):
        inside = (sure * 10).floor() == place
        assert found["right"][place] == int((inside & (guess == labels)).sum())
        assert found["wrong"][place] == int((inside & (guess != labels)).sum())
    for true in range(3):
        wanted = [int(((labels == true) & (guess == answer)).sum()) for answer in range(3)]
        assert found["counts"][true] == wanted
    assert found["labels"] == ["a", "b", "c"]
    assert len(json.dumps(found)) < 400  # whatever the number of rows


def test_of_many_classes_the_most_frequent_mistakes_are_a_table():
    predictive, labels = answers(12, 500)
    found = right_and_wrong(predictive, labels, Units())["classes"]
    assert "counts" not in found
    (table,) = confusions_table(found)
    guess = predictive.mean.argmax(1)
    counts = [row[2] for row in table["rows"]]
    assert counts == sorted(counts, reverse=True)
    for true, answer, count, of in table["rows"]:
        assert true != answer
        assert count == int(((labels == int(true)) & (guess == int(answer))).sum())
        assert of == int((labels == int(true)).sum())
    assert confusions_table({"right": [1], "wrong": [0]}) == []
