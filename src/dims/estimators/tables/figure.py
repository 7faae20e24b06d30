"""A picture of the predictions for held-out rows; a curve if there is one input."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.pipeline import Pipeline

from dims.estimators import DimsRegressor
from dims.estimators.tables.typed import Table

__all__ = ["picture"]

GREEN, RED = "#009E73", "#D55E00"
WIDE = 105  # letters of a line of the title


def picture(
    model: Pipeline, known: Table, held_out: Table, target: str, path: str | Path, title: str = ""
) -> None:
    """Draw the held-out rows with their uncertainty into a PNG file.

    Args:
        model: A fitted pipeline of preparation and estimator.
        known: The rows that it has learned from.
        held_out: Other rows, with targets.
        target: The name of what is predicted.
        path: The file to write.
        title: Some lines of text above the picture.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    single = known.inputs.shape[1] == 1 and known.inputs.dtypes.iloc[0].kind == "f"
    if not isinstance(model[-1], DimsRegressor):
        _show_classes(axis, model, held_out)
    elif single:
        _show_curve(axis, model, known, held_out, target)
    else:
        _show_rows(axis, model, held_out, target)
    # Columns of numbers keep their spaces; only longer lines are wrapped.
    lines = [p for line in title.splitlines() for p in ([line], wrap(line, WIDE))[len(line) > WIDE]]
    axis.set_title("\n".join(lines), fontsize=7, loc="left", parse_math=False, family="monospace")
    axis.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _show_classes(axis: Any, model: Pipeline, held_out: Table) -> None:
    """The uncertainty of each row, coloured by whether the prediction is right."""
    features = model[:-1].transform(held_out.inputs)
    entropy = -model[-1].score_samples(features)
    order = np.argsort(entropy)
    right = (model[-1].predict(features) == held_out.target)[order]
    for flag, name, colour in ((True, "right", GREEN), (False, "wrong", RED)):
        rows = np.flatnonzero(right == flag)
        axis.bar(rows, entropy[order][rows], color=colour, label=name)
    axis.set(xlabel="held-out rows, most certain first", ylabel="uncertainty (entropy, nats)")


def _show_curve(axis: Any, model: Pipeline, known: Table, held_out: Table, target: str) -> None:
    """The predicted curve with its interval and some draws, and the data."""
    (name,) = known.inputs.columns
    values = known.inputs[name]
    low, high, spread = values.min(), values.max(), values.std()
    grid = np.linspace(low - spread, high + spread, 200)
    features = model[:-1].transform(pd.DataFrame({name: grid}))
    estimator = model[-1]
    low, high = estimator.interval(features)
    axis.fill_between(grid, low, high, color=GREEN, alpha=0.3, label="95% interval")
    curves = estimator.draws_.predict(torch.tensor(features)).samples[:, :, 0].numpy()
    curves = curves * estimator.target_scale_ + estimator.target_mean_
    axis.plot(grid, curves.T, color=GREEN, linewidth=0.4)
    axis.plot(values, known.target, "k.", label="training")
    axis.plot(held_out.inputs[name], held_out.target, "x", color=RED, label="held out")
    axis.set(xlabel=name, ylabel=target)


def _show_rows(axis: Any, model: Pipeline, held_out: Table, target: str) -> None:
    """Predictions with their intervals against the true values."""
    features, truth = model[:-1].transform(held_out.inputs), held_out.target
    middle = model[-1].predict(features)
    low, high = model[-1].interval(features)
    reach = np.maximum([middle - low, high - middle], 0)  # a skewed mixture's mean may lie outside
    label = "prediction, 95% interval"
    axis.errorbar(truth, middle, reach, fmt="o", color=GREEN, alpha=0.5, label=label)
    axis.axline((truth.mean(), truth.mean()), slope=1, color="k", linewidth=0.8, label="exact")
    axis.set(xlabel=f"{target} of held-out rows", ylabel="prediction")
