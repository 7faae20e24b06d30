"""A person's own names and units of inputs, targets and classes, as a network carries them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from dims.commands.pages.trajectories import DIGITS, rounded
from dims.model.training_data import Inputs, TrainingData, slice_inputs
from dims.prediction.predictive import ClassificationPredictive, Predictive, RegressionPredictive
from dims.sampling.draws import Draws

__all__ = ["Units", "table_notes", "units_of"]

LONGEST_NAME = 40  # characters
MOST_DIGITS = 15  # of a float64
STANDARDISED = "targets_standardised_by"


@dataclass(frozen=True)
class Units:
    """Names, and y = mean + scale·(what the network predicts) for each output.

    Attributes:
        inputs: Names of the inputs; none where the network has none, here and below.
        targets: Names of the outputs of a regression.
        classes: Labels of the classes.
        mean: Of each output.
        scale: Of each output, positive.
        lines: Of the held-out rows in the person's file.
    """

    inputs: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def predict(self, draws: Draws, inputs: Inputs) -> Predictive:
        """What draws predict, in the person's units."""
        made = draws.predict(inputs)
        if not self.scale or not isinstance(made, RegressionPredictive):
            return made
        mean, scale = (made.outputs.new_tensor(n).double() for n in (self.mean, self.scale))
        outputs = made.outputs.double() * scale + mean
        noise = torch.as_tensor(made.noise_std).to(outputs) * scale
        return replace(made, outputs=outputs, noise_std=noise.expand(outputs.shape))

    def rows(self, rows: TrainingData) -> TrainingData:
        """The same rows, with targets in the person's units."""
        if not self.scale:
            return rows
        targets = rows.targets.reshape(len(rows.targets), -1).double()
        mean, scale = (targets.new_tensor(numbers) for numbers in (self.mean, self.scale))
        return TrainingData(rows.inputs, (targets * scale + mean).reshape(rows.targets.shape))

    def rounded(self, values: Tensor) -> Any:
        """As `trajectories.rounded`, with the digits that a large mean needs beside a small scale.

        1 000 000 ± 10 has five digits of the 10.
        """
        pairs = zip(self.mean, self.scale, strict=True)
        ratio = max((abs(mean) / scale for mean, scale in pairs), default=1.0)
        more = math.ceil(math.log10(max(1.0, ratio)))
        return rounded(values, min(MOST_DIGITS, DIGITS + more))

    def output(self, place: int, count: int) -> str:
        """The name of an output; "" for a single one without a name."""
        if self.targets:
            return self.targets[place]
        return "" if count == 1 else f"output {place}"

    def label(self, number: int) -> str:
        """The label of a class, or its number."""
        return self.classes[number] if self.classes else str(number)

    def described(self) -> dict[str, Any]:
        """What a page needs to know of them, in JSON's types; empty without names and units."""
        found = {"targets": self.targets, "mean": self.mean, "scale": self.scale}
        return {"units": found} if self.targets or self.scale else {}


def units_of(draws: Draws, rows: TrainingData) -> tuple[Units, list[str]]:
    """Read the attributes of the network that the draws belong to.

    Args:
        draws: Their network may have `input_names`, `target_names`, `class_names`, and
            `targets_standardised_by`, the mean and scale that were taken out of targets, and
            `held_out_lines`.
        rows: Some rows of data.

    Returns:
        Names and units, and a sentence where mean and scale cannot be used.
    """
    network = getattr(draws.surface, "given", None)
    try:
        made = draws.predict(slice_inputs(rows.inputs, slice(1)))
    except (TypeError, ValueError):  # named where all rows are predicted
        return Units(), []
    count = made.mean.shape[1]
    width = rows.inputs.flatten(1).shape[1] if isinstance(rows.inputs, Tensor) else 0
    inputs = _names(network, "input_names", width)
    lines = [int(line) for line in getattr(network, "held_out_lines", [])]
    if isinstance(made, ClassificationPredictive):
        return Units(inputs, classes=_names(network, "class_names", count), lines=lines), []
    named = Units(inputs, _names(network, "target_names", count), lines=lines)
    given = getattr(network, STANDARDISED, None)
    if given is None:
        return named, []
    gaussian = isinstance(made, RegressionPredictive)
    mean, scale = _pair(given, count)
    if gaussian and mean and min(scale) > 0:
        return replace(named, mean=mean, scale=scale), []
    wanted = f"it must be a mean and a positive scale for each of {count} outputs"
    why = wanted if gaussian else "this is for Gaussian likelihoods only"
    return named, [f"{STANDARDISED}: {why}, so predictions are in the network's units"]


def table_notes(draws: Draws) -> list[str]:
    """What was found in a person's table, `table_notes` of the network that draws belong to."""
    given = getattr(getattr(draws.surface, "given", None), "table_notes", [])
    known = isinstance(given, Sequence) and not isinstance(given, str)
    return [str(note) for note in given] if known else []


def _names(network: object, attribute: str, count: int) -> list[str]:
    given = getattr(network, attribute, None)
    known = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count
    return [str(name)[:LONGEST_NAME] for name in given] if known and given else []


def _pair(given: Any, count: int) -> tuple[list[float], list[float]]:
    """Mean and scale as so many finite numbers each, or none."""
    try:
        mean, scale = (torch.as_tensor(part, dtype=torch.float64).reshape(-1) for part in given)
    except (TypeError, ValueError, RuntimeError):
        return [], []
    fit = len(mean) == len(scale) == count
    fit = fit and bool(mean.isfinite().all()) and bool(scale.isfinite().all())
    return (mean.tolist(), scale.tolist()) if fit else ([], [])
