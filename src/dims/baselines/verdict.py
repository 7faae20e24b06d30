"""Whether held-out rows support an answer, beside the network alone and a constant: sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from dims.baselines.row_scores import error_rows, nll_rows
from dims.prediction.predictive import Predictive, RegressionPredictive
from dims.prediction.showing import Shown

__all__ = ["ALONE", "BOTH", "CROSS_VALIDATE", "FEWEST_TO_JUDGE_BY", "LEVEL", "Scores"]
__all__ += ["complaints_about", "scores_of", "verdict_on"]

LEVEL = 0.95  # of the interval that covers a row or not
BOTH, ALONE = "network and draws", "network alone"
PREFER_NETWORK = 'prefer that (ANSWER = "network" in a program of dims init, or network_only())'
CROSS_VALIDATE = "cross-validation (--cross-validate of a program of dims init)"
FEWEST_TO_JUDGE_BY = 30  # held-out rows; fewer say little about an answer, whatever it is


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Shown):
    """Per held-out row: log score, error (1 or 0 in classification) and whether it was covered."""

    log_scores: np.ndarray
    errors: np.ndarray
    covered: np.ndarray  # in classification the probability of the guess

    def _facts(self) -> Mapping[str, Any]:
        means = {"log_score": self.log_scores, "error": self.errors, "covered": self.covered}
        shown = {f"mean_{name}": float(values.mean()) for name, values in means.items()}
        return {"rows": len(self.errors), **shown}


def scores_of(predictive: Predictive, targets: Tensor) -> Scores:
    """The scores of a predictive; of several outputs the share of them that was covered."""
    if isinstance(predictive, RegressionPredictive):
        low, high = predictive.interval(LEVEL)
        wanted = targets.reshape(low.shape).to(low)
        covered = ((low <= wanted) & (wanted <= high)).double().mean(-1)
    else:
        covered = predictive.mean.double().amax(-1)
    rows = (-nll_rows(predictive, targets), error_rows(predictive, targets), covered)
    return Scores(*(each.cpu().double().numpy() for each in rows))


def verdict_on(scores: Mapping[str, Scores], task: str) -> str:
    """Whether these rows support the first answer beside the last, which is constant."""
    (_, own), *_, (name, constant) = scores.items()
    gain, error = _gain(own.log_scores - constant.log_scores)
    measured = f"NLL {_lower(gain, error)} than that of the {name}"
    rows = len(own.covered)
    few = f" {rows} rows are few: ask by {CROSS_VALIDATE}." * (rows < FEWEST_TO_JUDGE_BY)
    if complaints_about(scores, task):
        return f"see the warning; {measured}.{few}"
    if gain > 2 * error:
        return f"these rows support the answer ({measured}).{few}"
    return f"these rows neither support nor refute the answer ({measured}).{few}"


def complaints_about(scores: Mapping[str, Scores], task: str) -> list[str]:
    """Why nobody should trust the first answer; none where it is better than the others."""
    (_, own), *others = scores.items()
    said = []
    for name, other in others:
        if name == BOTH:  # the network is judged, because someone has chosen it
            continue
        gain, error = _gain(own.log_scores - other.log_scores)
        network = name == ALONE  # nearly the same answer: chance decides more often
        worse = gain < -error if network else gain < 0 or own.errors.mean() > other.errors.mean()
        advice = PREFER_NETWORK if network else "do not trust it"
        if worse:
            said.append(
                f"WARNING: on these rows the answer is worse than the {name} (NLL "
                f"{_lower(gain, error)}): {advice}."
            )
    low = LEVEL - 3 * math.sqrt(LEVEL * (1 - LEVEL) / len(own.covered))
    if task == "regression" and own.covered.mean() < low:
        said.append("WARNING: fewer rows than promised are inside the interval: overconfident.")
    return said


def _lower(gain: float, error: float) -> str:
    return f"{abs(gain):.3f} ± {error:.3f} {'lower' if gain >= 0 else 'higher'}"


def _gain(rows: np.ndarray) -> tuple[float, float]:
    return float(rows.mean()), float(rows.std()) / math.sqrt(len(rows))
