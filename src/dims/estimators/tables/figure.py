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
from dims.estimators.tables.predictions import answering
from dims.estimators.tables.typed import Table
from dims.estimators.tables.unlearned import Part, parts

__all__ = ["picture"]

GREEN, RED = "#009E73", "#D55E00"
WIDE = 105  # letters of a line of the title
BINS = 10  # of the probability of the predicted class
MOST_CLASSES = 8  # in a table of classes by classes
LONGEST = 14  # letters of a class


def picture(
    model: Pipeline,
    known: Table,
    held_out: Table,
    target: str,
    path: str | Path,
    title: str = "",
    answer: str = "draws",
) -> None:
    """Draw the held-out rows with their uncertainty into a PNG file.

    Args:
        model: A fitted pipeline of preparation and estimator.
        known: The rows that it has learned from.
        held_out: Other rows, with targets.
        target: The name of what is predicted.
        path: The file to write.
        title: Some lines of text above the picture.
        answer: Whose predictions: "draws", or "network" for the trained network alone.
    """
    import matplotlib.pyplot as plt

    single = known.inputs.shape[1] == 1 and known.inputs.dtypes.iloc[0].kind == "f"
    classes = [str(label) for label in getattr(model[-1], "classes_", [])]
    beside = 2 <= len(classes) <= MOST_CLASSES
    figure, axes = plt.subplots(
        1, 1 + beside, figsize=(7, 4.5), layout="constrained", squeeze=False
    )
    axis = axes[0, 0]
    estimator = answering(model, answer)
    asked = [_asked(part) for part in parts(model, estimator, known, held_out)]
    made = pd.concat(asked).sort_index()
    if not isinstance(estimator, DimsRegressor):
        _show_classes(axis, made, held_out)
        if beside:
            _show_confusions(axes[0, 1], made, held_out, classes)
    elif single:
        _show_curve(axis, model, estimator, known, held_out, target)
    else:
        _show_rows(axis, made, held_out, target)
    # Columns of numbers keep their spaces; only longer lines are wrapped.
    lines = [p for line in title.splitlines() for p in ([line], wrap(line, WIDE))[len(line) > WIDE]]
    figure.suptitle(
        "\n".join(lines), x=0.01, ha="left", fontsize=7, parse_math=False, family="monospace"
    )
    # Below the axes: inside it would cover some of the rows.
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _asked(part: Part) -> pd.DataFrame:
    """Prediction and interval, or predicted class and its probability, of some rows."""
    model, features = part.estimator, part.features
    made = {"answer": model.predict(features)}
    if isinstance(model, DimsRegressor):
        made["low"], made["high"] = model.interval(features)
    else:
        made["sure"] = model.predict_proba(features).max(axis=1)
    return pd.DataFrame(made, part.rows)


def _show_classes(axis: Any, made: pd.DataFrame, held_out: Table) -> None:
    """How many rows are right and wrong, by the probability of their predicted class."""
    sure, right = made["sure"].to_numpy(), made["answer"].to_numpy() == held_out.target
    edges = np.linspace(0, 1, BINS + 1)
    counts = [np.histogram(sure[right == flag], edges)[0] for flag in (False, True)]
    middles, total = (edges[:-1] + edges[1:]) / 2, counts[0] + counts[1]
    how = {"width": 0.96 / BINS, "edgecolor": "none"}
    axis.bar(middles, counts[0], color=RED, label="wrong", **how)
    axis.bar(middles, counts[1], bottom=counts[0], color=GREEN, label="right", **how)
    for middle, wrong, rows in zip(middles, counts[0], total, strict=True):
        if rows:  # the number stands above its bar: one wrong row of many has no height
            axis.text(middle, rows, wrong, color=RED, ha="center", va="bottom", fontsize=8)
    low = edges[np.flatnonzero(total)[0]]
    axis.set(xlim=(low, 1), ylim=(0, 1.08 * total.max()), xlabel="probability of the prediction")
    axis.set(ylabel="held-out rows (number: wrong ones)")


def _show_confusions(axis: Any, made: pd.DataFrame, held_out: Table, classes: list[str]) -> None:
    """How many rows of each class were taken for which; colours are shares of the class."""
    # A held-out class that no training row had is left out: the estimator has no name for it.
    place = {label: number for number, label in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    for true, answer in zip(held_out.target, made["answer"], strict=True):
        if str(true) in place:
            counts[place[str(true)], place[str(answer)]] += 1
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axis.imshow(shares, cmap="Greens", vmin=0, vmax=1, aspect="auto")
    for (row, column), count in np.ndenumerate(counts):
        dark = shares[row, column] > 0.6
        axis.text(column, row, count, color="w" if dark else "k", ha="center", va="center")
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in classes]
    axis.set_xticks(range(len(classes)), short, rotation=30, ha="right", parse_math=False)
    axis.set_yticks(range(len(classes)), short, parse_math=False)
    axis.set(xlabel="prediction", ylabel="true class")


def _show_curve(
    axis: Any, model: Pipeline, estimator: Any, known: Table, held_out: Table, target: str
) -> None:
    """The predicted curve with its interval and some draws, and the data."""
    (name,) = known.inputs.columns
    values = known.inputs[name]
    low, high, spread = values.min(), values.max(), values.std()
    grid = np.linspace(low - spread, high + spread, 200)
    features = model[:-1].transform(pd.DataFrame({name: grid}))
    low, high = estimator.interval(features)
    axis.fill_between(grid, low, high, color=GREEN, alpha=0.3, label="95% interval")
    curves = estimator.draws_.predict(torch.tensor(features)).samples[:, :, 0].numpy()
    curves = curves * estimator.target_scale_ + estimator.target_mean_
    axis.plot(grid, curves.T, color=GREEN, linewidth=0.4)
    axis.plot(values, known.target, "k.", label="training")
    axis.plot(held_out.inputs[name], held_out.target, "x", color=RED, label="held out")
    axis.set(xlabel=name, ylabel=target)


def _show_rows(axis: Any, made: pd.DataFrame, held_out: Table, target: str) -> None:
    """Predictions with their intervals against the true values."""
    truth, middle = held_out.target, made["answer"].to_numpy()
    # A skewed mixture's mean may lie outside.
    reach = np.maximum([middle - made["low"], made["high"] - middle], 0)
    label = "prediction, 95% interval"
    axis.errorbar(truth, middle, reach, fmt="o", color=GREEN, alpha=0.5, label=label)
    axis.axline((truth.mean(), truth.mean()), slope=1, color="k", linewidth=0.8, label="exact")
    axis.set(xlabel=f"{target} of held-out rows", ylabel="prediction")
