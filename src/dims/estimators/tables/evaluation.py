"""An estimator on rows that it has not seen, beside the network alone and a constant answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.pipeline import Pipeline

from dims.baselines.verdict import ALONE, BOTH, LEVEL, Scores, complaints_about, verdict_on
from dims.estimators import DimsRegressor
from dims.estimators.care import constant_scores
from dims.estimators.tables.predictions import SPREAD, answering, predictions
from dims.estimators.tables.typed import Table
from dims.estimators.tables.unlearned import Part, parts
from dims.prediction.showing import Shown

__all__ = ["Evaluation", "all_scores", "evaluate", "score_lines"]

NETWORK_ANSWERS = (
    'the answer, here and in all files, is that of the network alone (ANSWER = "network")'
)
# A class that no training row has: the estimator cannot guess it, and a constant neither.
LOWEST_LOG_SCORE = math.log(1e-6)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """Scores on held-out rows.

    Attributes:
        task: "regression" or "classification".
        scores: Of "network and draws", "network alone", and the constant answer.
        predictions: A table with a line for each held-out row.
        uncertainty: How it splits into noise and spread of the draws, as a sentence.
    """

    task: str
    scores: dict[str, Scores]
    predictions: pd.DataFrame
    uncertainty: str

    def _facts(self) -> Mapping[str, Any]:
        nll = (f"{name} {-each.log_scores.mean():.4g}" for name, each in self.scores.items())
        return {
            "task": self.task,
            "held_out_rows": len(self.predictions),
            "NLL": "; ".join(nll),
            "warnings": len(self.warnings()),
        }

    def summary(self) -> str:
        """The scores as a table in plain text, and warnings.

        Returns:
            Some lines to print.
        """
        head = f"{len(self.predictions)} held-out rows, not used in training:"
        lines = [head, *score_lines(self.scores, self.task == "regression")]
        return "\n".join([*lines, self.uncertainty, *self.warnings(), self.verdict()])

    def verdict(self) -> str:
        """Whether these rows support the answer, in one sentence."""
        by = f"by {len(self.predictions)} held-out rows"
        return f"Verdict {by}: {verdict_on(self.scores, self.task)}"

    def reminder(self) -> str:
        """A line for files of predictions, where the evaluation has warnings; "" else."""
        return (
            "\nWARNING: held-out rows speak against this answer, see above"
            if self.warnings()
            else ""
        )

    def warnings(self) -> list[str]:
        """What should keep a person from trusting the answer.

        Returns:
            Sentences; none where the answer is better than the others.
        """
        return complaints_about(self.scores, self.task)


def evaluate(model: Pipeline, known: Table, held_out: Table, answer: str = "draws") -> Evaluation:
    """Score a fitted pipeline of preparation and estimator.

    Args:
        model: `make_pipeline(preparation(columns), estimator)`, fitted to `known`.
        known: The rows that it has learned from.
        held_out: Other rows, with targets.
        answer: Which is judged and predicts: "draws", or "network" for the trained network alone.

    Returns:
        Scores, predictions, and a summary to print.
    """
    regression = isinstance(model[-1], DimsRegressor)
    asked = _asked(model, known, held_out)
    scores = _scores_of_all(asked, known, held_out, answer)
    chosen = answering(model, answer)
    made = predictions(model, known, held_out, held_out.target_name, chosen)
    if answer == "network":
        made, said = made.drop(columns=SPREAD), NETWORK_ANSWERS
    else:
        said = _uncertainty(asked[BOTH])
    return Evaluation("regression" if regression else "classification", scores, made, said)


def all_scores(model: Pipeline, known: Table, table: Table, answer: str) -> dict[str, Scores]:
    """Scores of the answer, of the other one of draws and network, and of a constant.

    Args:
        model: A fitted pipeline.
        known: The rows that it has learned from.
        table: Other rows, with targets.
        answer: Which is the first: "draws", or "network" for the trained network alone.

    Returns:
        Scores by name; the constant is the last.
    """
    return _scores_of_all(_asked(model, known, table), known, table, answer)


def _asked(model: Pipeline, known: Table, table: Table) -> dict[str, list[Part]]:
    """The rows, for the draws with the network and for the network alone."""
    both = {BOTH: model[-1], ALONE: model[-1].network_only()}
    return {name: [*parts(model, each, known, table)] for name, each in both.items()}


def _scores_of_all(
    asked: Mapping[str, list[Part]], known: Table, table: Table, answer: str
) -> dict[str, Scores]:
    names = [BOTH, ALONE] if answer == "draws" else [ALONE, BOTH]
    scores = {name: _scores(asked[name], table.target) for name in names}
    regression = isinstance(asked[BOTH][0].estimator, DimsRegressor)
    name = "mean of training rows" if regression else "class frequencies"
    task = "regression" if regression else "classification"
    return scores | {name: _constant(task, known, table)}


def score_lines(scores: Mapping[str, Scores], regression: bool) -> list[str]:
    """A table of scores in plain text, a line for each answer.

    Args:
        scores: By the name of the answer.
        regression: Whether numbers are predicted, not classes.
    """
    last = "inside 95% interval" if regression else "mean probability"
    width = max(map(len, scores))
    lines = [f"{'':{width}}  {'NLL':>8}  {'RMSE' if regression else 'accuracy':>8}  {last}"]
    for name, each in scores.items():
        nll = f"{-each.log_scores.mean():.3f}"
        mean = float(each.errors.mean())
        error = _short(math.sqrt(mean)) if regression else f"{1 - mean:.0%}"
        covered = f"{each.covered.mean():.0%}"
        if regression:
            covered += f" ({int(each.covered.sum())} of {len(each.covered)})"
        lines.append(f"{name:{width}}  {nll:>8}  {error:>8}  {covered}")
    if not regression:
        lines.append("(mean probability: of the predicted class; near the accuracy if honest)")
    return lines


def _scores(asked: list[Part], truth: np.ndarray) -> Scores:
    found = [_scored(part, truth[part.rows]) for part in asked]
    order = np.argsort(np.concatenate([part.rows for part in asked]))
    return Scores(*(np.concatenate(values)[order] for values in zip(*found, strict=True)))


def _scored(part: Part, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log scores, errors, and what was covered, of some rows."""
    model, features = part.estimator, part.features
    log_scores = model.score_samples(features, truth)
    if isinstance(model, DimsRegressor):
        low, high = model.interval(features, LEVEL)
        covered = (low <= truth) & (truth <= high)
        return log_scores, (model.predict(features) - truth) ** 2, covered
    wrong = (model.predict(features) != truth).astype(float)
    sure = model.predict_proba(features).max(axis=1)
    return np.maximum(log_scores, LOWEST_LOG_SCORE), wrong, sure


def _constant(task: str, known: Table, held_out: Table) -> Scores:
    """The mean and standard deviation, or the frequencies of the classes, of training rows."""
    if task == "regression":
        given, truth = (torch.tensor(each.target)[:, None] for each in (known, held_out))
        log_scores, errors = constant_scores(task, truth, given)
        reach = torch.special.ndtri(torch.tensor(0.5 + LEVEL / 2)) * given.std(correction=0)
        covered = (truth - given.mean()).abs()[:, 0] <= reach
        return Scores(log_scores.numpy(), errors.numpy(), covered.numpy())
    names = sorted(set(known.target) | set(held_out.target))
    number = {name: place for place, name in enumerate(names)}
    given, truth = (torch.tensor([number[n] for n in t.target]) for t in (known, held_out))
    log_scores, errors = constant_scores(task, truth, given)
    share = float(given.bincount().max()) / len(given)
    return Scores(log_scores.numpy(), errors.numpy(), np.full(len(truth), share))


def _uncertainty(asked: list[Part]) -> str:
    """How much of it, over all rows, is spread of the draws."""
    spread = whole = 0.0
    regression = isinstance(asked[0].estimator, DimsRegressor)
    for part in asked:
        predictive = part.estimator.draws_.predict(torch.tensor(part.features))
        more = (
            (predictive.epistemic, predictive.variance)
            if regression
            else (predictive.mutual_information, predictive.entropy)
        )
        spread, whole = spread + float(more[0].sum()), whole + float(more[1].sum())
    share = spread / whole
    what = "variance" if regression else "uncertainty"
    return f"{what}: {1 - share:.1%} noise in the data, {share:.1%} spread of the draws"


def _short(number: float) -> str:
    """Three significant digits, or a whole number from 1000 on."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
