"""One table and one seed: an estimator as it comes, beside the mean or the majority class."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from numpy.random import RandomState

import dims
from tables_people_bring.problems import Problem, Rows


def run_case(problem: Problem, seed: int, **settings: Any) -> dict[str, Any]:
    """Fit on the table's rows, and compare with a constant answer on fresh ones."""
    known, fresh = problem.make(RandomState(1000 + seed), problem.rows)
    kind = dims.DimsRegressor if problem.task == "regression" else dims.DimsClassifier
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kind(random_state=seed, **settings).fit(*known)
    seconds = time.perf_counter() - began
    worse = [str(w.message) for w in caught if w.category is dims.WorseThanBaselineWarning]
    return {
        "rows": problem.rows,
        "columns": known[0].shape[1],
        "fresh": len(fresh[1]),
        "seconds": round(seconds, 1),
        "warned": [message for message in worse if "network alone" not in message],
        "warned_of_network": [message for message in worse if "network alone" in message],
        "judgement": model.judgement_,
        "over_constant": gains(model, known, fresh),
        "over_network": gains_over_network(model, fresh),
    }


def gains(model: Any, known: Rows, fresh: Rows) -> dict[str, list[float]]:
    """What the estimator gains over the constant answer: mean and standard error, paired."""
    scores, errors = constant(known[1], fresh[1], isinstance(model, dims.DimsClassifier))
    return {
        "log_score": _mean_and_error(_log_scores(model, fresh) - scores),
        "error": _mean_and_error(errors - _errors(model, fresh)),
    }


def gains_over_network(model: Any, fresh: Rows) -> dict[str, list[float]]:
    """The same over the trained network alone."""
    alone = model.network_only()
    return {
        "log_score": _mean_and_error(_log_scores(model, fresh) - _log_scores(alone, fresh)),
        "error": _mean_and_error(_errors(alone, fresh) - _errors(model, fresh)),
    }


def constant(known: np.ndarray, fresh: np.ndarray, classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Log scores and errors of N(mean, variance), or of class frequencies and majority class."""
    if not classes:
        squares = (fresh - known.mean()) ** 2
        return -0.5 * (squares / known.var() + math.log(2 * math.pi * known.var())), squares
    names, counts = np.unique(known, return_counts=True)
    share = dict(zip(names.tolist(), (counts + 1) / (counts + 1).sum(), strict=True))
    common = names[counts.argmax()]
    scores = np.array([math.log(share.get(label, FLOOR)) for label in fresh.tolist()])
    return scores, (fresh != common).astype(float)


FLOOR = 1e-3  # probability of a class that the rows did not have


def _log_scores(model: Any, rows: Rows) -> np.ndarray:
    return np.maximum(model.score_samples(*rows), -np.inf if _numbers(model) else math.log(FLOOR))


def _errors(model: Any, rows: Rows) -> np.ndarray:
    found = model.predict(rows[0])
    return (found - rows[1]) ** 2 if _numbers(model) else (found != rows[1]).astype(float)


def _numbers(model: Any) -> bool:
    return isinstance(model, dims.DimsRegressor)


def _mean_and_error(rows: np.ndarray) -> list[float]:
    return [float(rows.mean()), float(rows.std(ddof=1) / math.sqrt(len(rows)))]
