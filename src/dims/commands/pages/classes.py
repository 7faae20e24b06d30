"""Which answers about classes are right, by their confidence and by their class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.parts import column, table
from dims.commands.pages.units import Units
from dims.prediction.predictive import ClassificationPredictive

__all__ = ["confusions_table", "right_and_wrong"]

BINS = 10
MOST_CLASSES = 10  # in a table of classes by classes
MOST_PAIRS = 20


def right_and_wrong(
    predictive: ClassificationPredictive, targets: Tensor, units: Units
) -> dict[str, Any]:
    """Count right and wrong answers in bins of confidence, and answers for each true class.

    Args:
        predictive: Of the rows.
        targets: Their classes, by number.
        units: Labels of the classes.

    Returns:
        `classes`, in JSON's types: counts per bin, and for few classes a row of counts for each
        true class; for many the pairs (true class, answer, rows, rows of the class) that are most
        often confused.
    """
    top = predictive.mean.double().cpu().max(1)
    labels, answers = targets.long().reshape(-1).cpu(), top.indices
    count = predictive.mean.shape[1]
    place = (top.values * BINS).long().clamp(max=BINS - 1)
    right = labels == answers
    matrix = torch.bincount(labels * count + answers, minlength=count**2).reshape(count, count)
    found: dict[str, Any] = {
        "right": torch.bincount(place[right], minlength=BINS).tolist(),
        "wrong": torch.bincount(place[~right], minlength=BINS).tolist(),
    }
    if count <= MOST_CLASSES:
        named = [units.label(number) for number in range(count)]
        return {"classes": {**found, "labels": named, "counts": matrix.tolist()}}
    of = matrix.sum(1).tolist()
    wrong = matrix - torch.diag(matrix.diagonal())
    order = wrong.flatten().argsort(descending=True, stable=True)[:MOST_PAIRS].tolist()
    pairs = [(number // count, number % count) for number in order]
    confusions = [
        [units.label(true), units.label(answer), int(wrong[true, answer]), of[true]]
        for true, answer in pairs
        if wrong[true, answer] > 0
    ]
    return {"classes": {**found, "confusions": confusions}}


def confusions_table(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A table of the pairs of classes that are most often confused, where there are many classes.

    Args:
        found: What `right_and_wrong` has under `classes`.

    Returns:
        One table, or none.
    """
    rows = found.get("confusions")
    if not rows:
        return []
    columns = [column("true class"), column("answer"), column("rows", "with this answer")]
    columns.append(column("of", "held-out rows of the true class"))
    note = f"The {len(rows)} pairs with most wrong answers."
    return [table("confusions", "Classes taken for others", note, columns, rows)]
