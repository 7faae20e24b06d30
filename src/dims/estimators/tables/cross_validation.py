"""Whether a simpler model predicts a table better: every row by models that have not seen it."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from dims.baselines.verdict import Scores
from dims.estimators import DimsRegressor
from dims.estimators.tables.evaluation import LOWEST_LOG_SCORE, all_scores
from dims.estimators.tables.learned import fit
from dims.estimators.tables.predictions import check_answer
from dims.estimators.tables.repeated import repeated_rows
from dims.estimators.tables.typed import Table

__all__ = ["cross_validated"]

FOLDS = 5
MOST_FOR_PROCESS = 500  # rows; the time of a Gaussian process grows with their third power
CLEAR = 2  # standard errors


def cross_validated(model: Pipeline, table: Table, answer: str = "draws") -> str:
    """Score a pipeline by cross-validation, beside simpler models of scikit-learn.

    Rows that are copies of each other stay in one of the five folds.

    Args:
        model: `make_pipeline(preparation(columns), estimator)`; it stays as it is.
        table: All rows.
        answer: "draws", or "network" for the trained network alone.

    Returns:
        A table with mean and standard error over the folds, and which model is the best.

    Raises:
        TableError: A setting of the estimator is refused.
    """
    check_answer(answer)
    regression = isinstance(model[-1], DimsRegressor)
    second = "RMSE" if regression else "accuracy"
    found: dict[str, dict[str, list[float]]] = {"NLL": defaultdict(list), second: defaultdict(list)}
    for number, (known, held_out) in enumerate(_folds(table, regression), start=1):
        print(f"fold {number} of {FOLDS}", flush=True)
        for name, each in _scores(model, known, held_out, answer).items():
            error = float(each.errors.mean())
            found["NLL"][name].append(-float(each.log_scores.mean()))
            found[second][name].append(math.sqrt(error) if regression else 1 - error)
    width = max(map(len, found["NLL"]))
    lines = [
        f"\n{len(table)} rows in {FOLDS} folds, mean ± standard error:",
        f"{'':{width}}  {'NLL':>18}  {second:>18}",
    ]
    for name in found["NLL"]:
        shown = (f"{_mean(np.array(each[name])):>18}" for each in found.values())
        lines.append(f"{name:{width}}  {'  '.join(shown)}")
    if "Gaussian process" not in found["NLL"]:
        few = f"which takes long on more than {MOST_FOR_PROCESS} rows"
        lines.append(f"(without a Gaussian process, {few})")
    return "\n".join([*lines, *(_best(name, each) for name, each in found.items())])


def _folds(table: Table, regression: bool) -> Iterator[tuple[Table, Table]]:
    groups = repeated_rows(table.inputs, table.target)
    same = np.arange(len(table)) if groups is None else groups.numpy()
    kind = GroupKFold if regression else StratifiedGroupKFold
    folds = kind(FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class with fewer rows than folds
        chosen = [*folds.split(table.inputs, table.target, same)]
    for known, held_out in chosen:
        yield table.rows(known), table.rows(held_out)


def _scores(model: Pipeline, known: Table, held_out: Table, answer: str) -> dict[str, Scores]:
    """Of the pipeline, its network alone, a constant, and simpler models."""
    fitted = clone(model)
    fitted[-1].verbose = False
    fit(fitted[-1], fitted[:-1].fit_transform(known.inputs), known.target)  # warnings: the scores
    scores = all_scores(fitted, known, held_out, answer)
    for name, simpler in _simpler(isinstance(model[-1], DimsRegressor), len(known)).items():
        other = make_pipeline(clone(model[0]), StandardScaler(), simpler)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other.fit(known.inputs, known.target)
            scores[name] = _scored(other, held_out)
    return scores


def _simpler(regression: bool, rows: int) -> dict[str, Any]:
    """Models by name, without a Gaussian process where it would take long."""
    kernel = ConstantKernel() * RBF()
    if regression:
        process = GaussianProcessRegressor(kernel + WhiteKernel(), normalize_y=True)
        models = {"ridge regression": BayesianRidge(), "Gaussian process": process}
    else:
        linear = LogisticRegression(max_iter=1000)
        models = {
            "logistic regression": linear,
            "Gaussian process": GaussianProcessClassifier(kernel),
        }
    return dict([*models.items()][: 1 + (rows <= MOST_FOR_PROCESS)])


def _scored(model: Pipeline, held_out: Table) -> Scores:
    truth = held_out.target
    if hasattr(model, "classes_"):
        chances = model.predict_proba(held_out.inputs)
        hit = model.classes_ == truth[:, None]
        logs = np.log(np.maximum((chances * hit).sum(axis=1), math.exp(LOWEST_LOG_SCORE)))
        wrong = (model.classes_[chances.argmax(axis=1)] != truth).astype(float)
        return Scores(logs, wrong, chances.max(axis=1))
    mean, std = model.predict(held_out.inputs, return_std=True)
    logs, squares = norm.logpdf(truth, mean, std), (mean - truth) ** 2
    return Scores(logs, squares, np.abs(mean - truth) <= norm.ppf(0.975) * std)


def _best(score: str, found: dict[str, list[float]]) -> str:
    """Which model is the best, and whether it is clearly ahead of dims; else of the next one."""
    sign = -1 if score == "accuracy" else 1
    ordered = sorted(found, key=lambda name: sign * sum(found[name]))
    own, best = next(iter(found)), ordered[0]
    other = own if best != own else ordered[1]
    gains = sign * (np.array(found[other]) - np.array(found[best]))
    clear = gains.mean() > CLEAR * _error(gains)
    said = "" if clear else ", which is not significant"
    return f"best {score}: {best}; ahead of {other} by {_mean(gains)}{said}"


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():.3g} ± {_error(values):.2g}"


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))
