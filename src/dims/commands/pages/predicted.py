"""What draws predict, as data of a page: calibration, residuals, disagreement, bands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from dims.baselines.row_scores import reliability
from dims.baselines.verdict import ALONE, complaints_about, scores_of, verdict_on
from dims.commands.pages.classes import right_and_wrong
from dims.commands.pages.constant import constant_answer
from dims.commands.pages.pictures import is_images, pictures
from dims.commands.pages.style import LABELS
from dims.commands.pages.trajectories import rounded
from dims.commands.pages.units import Units, table_notes, units_of
from dims.model.training_data import TrainingData
from dims.prediction.predictive import ClassificationPredictive, Predictive
from dims.sampling.draws import Draws

__all__ = ["predicted"]

MOST_ROWS = 10_000  # held-out rows that are predicted
MOST_TRAINING = 2_000  # training rows, where there are no others
MOST_POINTS = 1_000  # points of a picture
MOST_CURVES = 20
MOST_FUNCTIONS = 4  # outputs or classes with a picture of their own
SHOWN_ROWS, SHOWN_INPUTS = 20, 6
CELL_DIGITS = 10  # of a number in a table, which may be 2019.354 or 1234567.8
GRID, MARGIN = 161, 0.25  # points of a band, and how far it goes beyond the data

Entry = dict[str, Any]


def predicted(draws: Draws, training: TrainingData, held_out: TrainingData | None) -> Entry:
    """Predict held-out rows, or training rows where there are none.

    Args:
        draws: The draws, with their mixture where held-out rows have set one.
        training: The training data.
        held_out: Rows that the network has not seen.

    Returns:
        A dictionary in JSON's types. What could not be computed is named in `missing`.
    """
    units, unused = units_of(draws, training)
    found: Entry = {"missing": unused, **units.described()}
    found["table_notes"] = table_notes(draws)
    if held_out is None:
        found["missing"].append(
            "no held-out rows, so calibration and residuals are not shown: return them as the "
            "fourth value of the problem function, or give dims.fit(..., validation=(x, y))"
        )
    every = max(1, len(training.targets) // MOST_TRAINING) if held_out is None else 1
    rows = _some(training, MOST_TRAINING) if held_out is None else _first(held_out, MOST_ROWS)
    label = LABELS.get(draws.method, draws.method)
    parts: list[Callable[[], Entry]] = [
        lambda: _disagreement(draws, rows, every, held_out is not None, units),
        lambda: _functions(draws, label, training, held_out, units),
    ]
    if held_out is not None:
        parts.append(lambda: _held_out(draws, label, training, rows, units))
    for part in parts:
        try:
            found |= part()
        except (TypeError, ValueError) as error:
            found["missing"].append(f"predictions: {error}")
    found["missing"] = list(dict.fromkeys(found["missing"]))
    return found


def _some(rows: TrainingData, most: int) -> TrainingData:
    every = max(1, len(rows.targets) // most)
    part = slice(0, most * every, every)
    return rows.part(part)


def _first(rows: TrainingData, most: int) -> TrainingData:
    return rows.part(slice(most))


def _held_out(
    draws: Draws, label: str, training: TrainingData, rows: TrainingData, units: Units
) -> Entry:
    """Scores, calibration and residuals; those of the network alone beside them."""
    mixture, theta = draws.mixture, draws.map_parameters
    networks = theta.unsqueeze(0) if mixture is None else mixture.networks
    alone = Draws.from_parameters(draws.surface, networks, "map", theta, measure=False)
    each = {label: draws, ALONE: alone}
    # Scores of several outputs are means over them, which have no units.
    scored = Units() if len(units.scale) > 1 else units
    judged = {name: scored.predict(which, rows.inputs) for name, which in each.items()}
    known, truth = scored.rows(training).targets, scored.rows(rows).targets
    verdict: list[str] = []
    with suppress(TypeError):  # another likelihood
        judged |= [constant_answer(judged[label], known, len(truth))]
        verdict = _verdict(judged, truth)
    rows, inputs = units.rows(rows), rows.inputs
    made = {name: units.predict(which, inputs) for name, which in each.items()}
    classes = isinstance(made[label], ClassificationPredictive)
    found: Entry = {
        "held_out": len(rows.targets),
        "weighed": draws.mixture is not None and draws.mixture.held_out > 0,
        "verdict": verdict,
        "scores": [
            {"method": name, **predictive.metrics(truth)["ensemble"]}
            for name, predictive in judged.items()
        ],
    }
    axes = ["confidence", "accuracy"] if classes else ["level of the interval", "coverage"]
    with suppress(TypeError):  # a predictive without quantiles
        diagrams = {name: reliability(p, rows.targets) for name, p in made.items()}
        found["calibration_axes"] = axes
        found["calibration"] = [
            {"method": name, "confidence": d.promised, "accuracy": d.observed, "inputs": d.rows}
            for name, d in diagrams.items()
        ]
    answer = made[label]
    if isinstance(answer, ClassificationPredictive):
        return found | right_and_wrong(answer, rows.targets, units)
    return found | _residuals(answer, rows.targets, units)


def _verdict(judged: dict[str, Predictive], truth: Tensor) -> list[str]:
    """Warnings about the first answer, if there are any, and whether the rows support it."""
    classes = isinstance(next(iter(judged.values())), ClassificationPredictive)
    task = "classification" if classes else "regression"
    scores = {name: scores_of(predictive, truth) for name, predictive in judged.items()}
    said = verdict_on(scores, task)
    return [*complaints_about(scores, task), said[0].upper() + said[1:]]


def _residuals(predictive: Predictive, targets: Tensor, units: Units) -> Entry:
    """(y − mean)/std against the mean."""
    mean = predictive.mean.double()
    wanted = targets.reshape(mean.shape).to(mean)
    std = predictive.variance.double().sqrt()
    standard = (wanted - mean) / std
    columns = range(min(mean.shape[1], MOST_FUNCTIONS))
    names = [units.output(column, mean.shape[1]) for column in columns]
    return {
        "residuals": [
            {
                "name": "" if mean.shape[1] == 1 else name,
                "axis": f"predicted {name or 'mean'}",
                "x": units.rounded(mean[:MOST_POINTS, column]),
                "y": rounded(standard[:MOST_POINTS, column]),
            }
            for column, name in enumerate(names)
        ],
        "within_two": float((standard.abs() <= 2).double().mean()),
    }


def _disagreement(
    draws: Draws, rows: TrainingData, every: int, held_out: bool, units: Units
) -> Entry:
    """The rows where draws disagree most, with their inputs; `rows` are every so many of them."""
    predictive, rows = units.predict(draws, rows.inputs), units.rows(rows)
    classes = isinstance(predictive, ClassificationPredictive)
    if isinstance(predictive, ClassificationPredictive):
        amount = predictive.mutual_information.double()
        answer = predictive.mean.argmax(1).double()
        spread = 1 - predictive.mean.double().max(1).values
    else:
        amount = predictive.epistemic.double().mean(1).sqrt()
        answer, spread = predictive.mean[:, 0].double(), predictive.variance[:, 0].double().sqrt()
    chosen = amount.argsort(descending=True, stable=True)[:SHOWN_ROWS].cpu()
    targets = rows.targets.reshape(len(rows.targets), -1)[:, 0]
    columns = [amount, answer, spread, targets]
    inputs = rows.inputs.flatten(1) if isinstance(rows.inputs, Tensor) else None
    inputs = None if is_images(rows.inputs) else inputs  # they are shown as such
    if inputs is not None and len(inputs) == len(amount):
        columns += list(inputs[:, :SHOWN_INPUTS].T)
    values = rounded(torch.stack([c.cpu().double()[chosen] for c in columns], 1), CELL_DIGITS)
    if classes and units.classes:
        for line in values:
            line[1], line[3] = (units.label(int(line[place])) for place in (1, 3))
    count = 0 if inputs is None else inputs.shape[1]
    names = units.inputs or [f"x{place}" for place in range(count)]
    numbers = units.lines if held_out and len(units.lines) == len(amount) else []
    places = [numbers[row] if numbers else every * row for row in chosen.tolist()]
    lines = [[place, *line] for place, line in zip(places, values, strict=True)]
    found: Entry = {
        "disagreement": {
            "classes": classes,
            "held_out": held_out,
            "lines": bool(numbers),
            "rows": lines,
            "inputs": count,
            "names": names[:SHOWN_INPUTS],
            "of": len(amount),
        }
    }
    if is_images(rows.inputs):
        found["pictures"] = pictures(rows.inputs, chosen.tolist(), lines)
    return found


def _functions(
    draws: Draws,
    label: str,
    training: TrainingData,
    held_out: TrainingData | None,
    units: Units,
) -> Entry:
    """Mean and bands along the input, where there is one."""
    inputs = training.inputs
    one = isinstance(inputs, Tensor) and inputs.is_floating_point() and inputs[0].numel() == 1
    if not one or not isinstance(inputs, Tensor):
        return {}
    low, high = float(inputs.min()), float(inputs.max())
    margin = MARGIN * (high - low) or 1.0
    grid = torch.linspace(low - margin, high + margin, GRID, dtype=torch.float64).to(inputs)
    predictive = units.predict(draws, grid.reshape(-1, *inputs.shape[1:]))
    classes = isinstance(predictive, ClassificationPredictive)
    count = predictive.mean.shape[1]
    shown = [1] if classes and count == 2 else range(min(count, MOST_FUNCTIONS))
    names = [f"class {units.label(c)}" if classes else units.output(c, count) for c in shown]
    step = max(1, len(predictive.samples) // MOST_CURVES)
    outer = predictive.epistemic if classes else predictive.variance
    functions = [
        {
            "method": label if count == 1 else f"{label} ({name})",
            "curves": units.rounded(predictive.samples[::step, :, column]),
            "mean": units.rounded(predictive.mean[:, column]),
            "std": rounded(outer[:, column].sqrt()),
            "inner": None if classes else rounded(predictive.epistemic[:, column].sqrt()),
        }
        for column, name in zip(shown, names, strict=True)
    ]
    sets = {"train": training, "gap": held_out}
    points = {
        name: _dots(_some(rows, MOST_POINTS), shown[0] if classes else None, units)
        for name, rows in sets.items()
        if rows is not None
    }
    title = "probability of the class" if classes else "target"
    if count == 1 and units.targets:
        (title,) = units.targets
    return {
        "functions": functions,
        "grid": rounded(grid.reshape(-1), CELL_DIGITS),
        "points": points,
        "function_axes": [units.inputs[0] if units.inputs else "input", title],
    }


def _dots(rows: TrainingData, label: int | None, units: Units) -> Any:
    """Pairs of input and target; of classes 1 for the shown one."""
    rows = units.rows(rows)
    targets = rows.targets.reshape(len(rows.targets), -1)[:, 0]
    heights = targets.double() if label is None else (targets == label).double()
    assert isinstance(rows.inputs, Tensor)
    inputs = rows.inputs.reshape(-1).double()
    return rounded(torch.stack([inputs, heights], 1), CELL_DIGITS)
