"""What draws predict, as data of a page: calibration, residuals, disagreement, bands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from dims.baselines.row_scores import reliability
from dims.commands.pages.style import LABELS
from dims.commands.pages.trajectories import rounded
from dims.model.training_data import TrainingData, slice_inputs
from dims.prediction.predictive import ClassificationPredictive, Predictive
from dims.sampling.draws import Draws

__all__ = ["predicted"]

MOST_ROWS = 10_000  # held-out rows that are predicted
MOST_TRAINING = 2_000  # training rows, where there are no others
MOST_POINTS = 1_000  # points of a picture
MOST_CURVES = 20
MOST_FUNCTIONS = 4  # outputs or classes with a picture of their own
SHOWN_ROWS, SHOWN_INPUTS = 20, 6
LONGEST_NAME = 40  # characters
GRID, MARGIN = 161, 0.25  # points of a band, and how far it goes beyond the data
NETWORK = "network alone"

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
    found: Entry = {"missing": []}
    if held_out is None:
        found["missing"].append(
            "no held-out rows, so calibration and residuals are not shown: return them as the "
            "fourth value of the problem function, or give dims.fit(..., validation=(x, y))"
        )
    every = max(1, len(training.targets) // MOST_TRAINING) if held_out is None else 1
    rows = _some(training, MOST_TRAINING) if held_out is None else _first(held_out, MOST_ROWS)
    label = LABELS.get(draws.method, draws.method)
    parts: list[Callable[[], Entry]] = [
        lambda: _disagreement(draws, rows, every, held_out is not None),
        lambda: _functions(draws, label, training, held_out),
    ]
    if held_out is not None:
        parts.append(lambda: _held_out(draws, label, rows))
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
    return TrainingData(slice_inputs(rows.inputs, part), rows.targets[part])


def _first(rows: TrainingData, most: int) -> TrainingData:
    return TrainingData(slice_inputs(rows.inputs, slice(most)), rows.targets[:most])


def _held_out(draws: Draws, label: str, rows: TrainingData) -> Entry:
    """Scores, calibration and residuals; those of the network alone beside them."""
    theta = draws.map_parameters if draws.mixture is None else draws.mixture.network
    alone = Draws.from_parameters(draws.surface, theta.unsqueeze(0), "map", theta, measure=False)
    made = {label: draws.predict(rows.inputs), NETWORK: alone.predict(rows.inputs)}
    classes = isinstance(made[label], ClassificationPredictive)
    found: Entry = {
        "held_out": len(rows.targets),
        "weighed": draws.mixture is not None and draws.mixture.held_out > 0,
        "scores": [
            {"method": name, **predictive.metrics(rows.targets)["ensemble"]}
            for name, predictive in made.items()
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
    return found | _residuals(made[label], rows.targets)


def _residuals(predictive: Predictive, targets: Tensor) -> Entry:
    """(y − mean)/std against the mean; of classes 1 − p(y), which is 0 for a sure, right answer."""
    mean = predictive.mean.double()
    if isinstance(predictive, ClassificationPredictive):
        labels = targets.long().reshape(-1, 1).to(mean.device)
        missed, sure = 1 - mean.gather(1, labels)[:, 0], mean.max(1).values
        return {"residuals": [_points("probability missing from the true class", sure, missed)]}
    wanted = targets.reshape(mean.shape).to(mean)
    std = predictive.variance.double().sqrt()
    standard = (wanted - mean) / std
    columns = range(min(mean.shape[1], MOST_FUNCTIONS))
    names = ["" if mean.shape[1] == 1 else f"output {column}" for column in columns]
    return {
        "residuals": [_points(n, mean[:, c], standard[:, c]) for c, n in enumerate(names)],
        "within_two": float((standard.abs() <= 2).double().mean()),
    }


def _points(name: str, x: Tensor, y: Tensor) -> Entry:
    part = slice(MOST_POINTS)
    return {"name": name, "x": rounded(x[part]), "y": rounded(y[part])}


def _disagreement(draws: Draws, rows: TrainingData, every: int, held_out: bool) -> Entry:
    """The rows where draws disagree most, with their inputs; `rows` are every so many of them."""
    predictive = draws.predict(rows.inputs)
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
    if inputs is not None and len(inputs) == len(amount):
        columns += list(inputs[:, :SHOWN_INPUTS].T)
    values = torch.stack([column.cpu().double()[chosen] for column in columns], 1)
    return {
        "disagreement": {
            "classes": classes,
            "held_out": held_out,
            "rows": [
                [every * row, *line]
                for row, line in zip(chosen.tolist(), rounded(values), strict=True)
            ],
            "inputs": 0 if inputs is None else inputs.shape[1],
            "names": _names(draws, 0 if inputs is None else inputs.shape[1]),
            "of": len(amount),
        }
    }


def _names(draws: Draws, count: int) -> list[str]:
    """Names of the first inputs: `input_names` of the network, or x0, x1, … where it has none."""
    given = getattr(getattr(draws.surface, "given", None), "input_names", None)
    names: list[object] = [f"x{place}" for place in range(count)]
    if isinstance(given, (list, tuple)) and len(given) == count:
        names = list(given)
    return [str(name)[:LONGEST_NAME] for name in names[:SHOWN_INPUTS]]


def _functions(
    draws: Draws, label: str, training: TrainingData, held_out: TrainingData | None
) -> Entry:
    """Mean and bands along the input, where there is one."""
    inputs = training.inputs
    one = isinstance(inputs, Tensor) and inputs.is_floating_point() and inputs[0].numel() == 1
    if not one or not isinstance(inputs, Tensor):
        return {}
    low, high = float(inputs.min()), float(inputs.max())
    margin = MARGIN * (high - low) or 1.0
    grid = torch.linspace(low - margin, high + margin, GRID, dtype=torch.float64).to(inputs)
    predictive = draws.predict(grid.reshape(-1, *inputs.shape[1:]))
    classes = isinstance(predictive, ClassificationPredictive)
    count = predictive.mean.shape[1]
    shown = [1] if classes and count == 2 else range(min(count, MOST_FUNCTIONS))
    what = "class" if classes else "output"
    step = max(1, len(predictive.samples) // MOST_CURVES)
    outer = predictive.epistemic if classes else predictive.variance
    functions = [
        {
            "method": label if count == 1 else f"{label} ({what} {column})",
            "curves": rounded(predictive.samples[::step, :, column]),
            "mean": rounded(predictive.mean[:, column]),
            "std": rounded(outer[:, column].sqrt()),
            "inner": None if classes else rounded(predictive.epistemic[:, column].sqrt()),
        }
        for column in shown
    ]
    sets = {"train": training, "gap": held_out}
    points = {
        name: _dots(_some(rows, MOST_POINTS), shown[0] if classes else None)
        for name, rows in sets.items()
        if rows is not None
    }
    title = "probability of the class" if classes else "target"
    return {
        "functions": functions,
        "grid": rounded(grid.reshape(-1)),
        "points": points,
        "function_axes": ["input", title],
    }


def _dots(rows: TrainingData, label: int | None) -> Any:
    """Pairs of input and target; of classes 1 for the shown one."""
    targets = rows.targets.reshape(len(rows.targets), -1)[:, 0]
    heights = targets.double() if label is None else (targets == label).double()
    assert isinstance(rows.inputs, Tensor)
    return rounded(torch.stack([rows.inputs.reshape(-1).double(), heights], 1))
