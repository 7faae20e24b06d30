"""What was learned from a table, in a few lines for its owner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.pipeline import Pipeline

from dims.estimators import DimsRegressor
from dims.estimators.care import trustworthy
from dims.estimators.noise import SMALLEST
from dims.estimators.tables.predictions import answering
from dims.estimators.tables.typed import Table
from dims.sampling.draws.diversity import measured_diversity

__all__ = ["described"]

OTHER_NOISE = 1.5  # times as large or small as that of the fit that was evaluated
OTHER_GAIN = 0.3  # nats a training row
OTHER_CHANCE = 0.2  # mean difference of probabilities; of means, their standard deviation
LITTLE = 0.3  # of one of the two
MOST_ROWS = 1000  # on which predictions are compared
QUITE_ANOTHER = (
    "WARNING: with all rows the answer is quite another than the one that was evaluated above, so "
    "the scores say little about it. Rows are few for this network; with LEARN_FROM_ALL = False "
    "the evaluated answer predicts"
)


def described(
    model: Pipeline, known: Table, answer: str = "draws", evaluated: Pipeline | None = None
) -> str:
    """Rows, noise and prior of a fitted pipeline, and what is odd about its draws.

    Args:
        model: A fitted pipeline.
        known: The rows that it has learned from.
        answer: "draws", or "network" where that alone will answer; then nothing is about draws.
        evaluated: Another one, whose evaluation was printed; it is said how far the two differ.

    Returns:
        Some lines to print.
    """
    facts = _facts(model, known, answer)
    before = {} if evaluated is None else _facts(evaluated, known, answer)
    lines = [f"learned from  {_rows(model[-1], known)}"]
    for name, value in facts.items():
        changed = f" (the fit above: {before[name]})" if before.get(name, value) != value else ""
        lines.append(f"{name:12}  {value}{changed}{_meaning(name, model[-1], known)}")
    found = measured_diversity(model[-1].draws_) if answer == "draws" else None
    if found is not None and found.collapsed:
        lines.append(
            "the draws hardly differ, even far from the training rows: trust rows with a note "
            "less than they say; a smaller prior_precision in estimator(), such as 0.01, gives "
            "draws that differ more"
        )
    if evaluated is not None:
        said, share = _distance(model, evaluated, known, answer)
        lines.append(f"{said}{', which is little' * (share < LITTLE)}")
        if share > 1 or _differ(model[-1], evaluated[-1], answer):
            lines.append(QUITE_ANOTHER)
    return "\n".join(lines)


def _distance(one: Pipeline, other: Pipeline, known: Table, answer: str) -> tuple[str, float]:
    """How far the predictions of two fits for these rows differ, and as a part of much."""
    rows = known.inputs.iloc[:: 1 + len(known) // MOST_ROWS]
    pairs = [(answering(model, answer), model[:-1].transform(rows)) for model in (one, other)]
    which = "predictions of the two fits differ by"
    if isinstance(one[-1], DimsRegressor):
        (mean, std), (before, _) = (each.predict(x, return_std=True) for each, x in pairs)
        apart, usual = (float(np.sqrt(np.mean(v**2))) for v in (mean - before, std))
        share = apart / usual
        return f"{which} {_readable(apart)}, {share:.0%} of the standard deviation of a row", share
    frames = [pd.DataFrame(each.predict_proba(x), columns=each.classes_) for each, x in pairs]
    apart = float(frames[0].sub(frames[1], fill_value=0).abs().to_numpy().sum(axis=1).mean()) / 2
    return f"{which} {apart:.1%} of probability", apart / OTHER_CHANCE


def _rows(estimator: Any, known: Table) -> str:
    mixture = estimator.draws_.mixture
    apart = 0 if mixture is None else mixture.held_out
    return f"{len(known)} rows" + (f", {apart} of them to weigh network and draws" * (apart > 0))


def _facts(model: Pipeline, known: Table, answer: str) -> dict[str, str]:
    estimator, found = model[-1], {}
    draws = estimator.draws_
    if isinstance(estimator, DimsRegressor):
        found["noise"] = _readable(_noise(estimator))
        if estimator.noise_ == "input":
            rows = _noise_of_rows(model, known, answer)
            found["noise"] = f"median {_readable(np.median(rows))}, least {_readable(rows.min())}"
        if estimator.skip is None and estimator.skip_:
            found["shape"] = "close to a straight line, because nothing was found without one"
    prior = draws.surface.prior_precision
    found["prior"] = f"{float(prior.mean()):.3g}"
    if answer == "network":
        return found
    ended = sum(status is not None and not status.ok for status in draws.status)
    found["draws"] = f"{len(draws)}" + (f", {ended} of which ended early" if ended else "")
    return found


def _meaning(name: str, estimator: Any, known: Table) -> str:
    if name == "prior":
        return ", the precision of the network's weights; a larger one is smoother"
    if name != "noise":
        return ""
    depends = " and depends on the row" if estimator.noise_ == "input" else ""
    return f", the standard deviation that is left of {known.target_name!r}{depends}"


def _noise_of_rows(model: Pipeline, known: Table, answer: str) -> np.ndarray:
    """In the units of the target."""
    features = torch.tensor(model[:-1].transform(known.inputs))
    noise = answering(model, answer).draws_.predict(features).aleatoric.sqrt().numpy()
    return noise * model[-1].target_scale_


def _noise(estimator: Any) -> float:
    """The one noise of all rows, in the units of the target, also where rows have their own."""
    likelihood = estimator.draws_.surface.likelihood
    own = estimator.noise_ == "input"
    noise = likelihood.min_noise_std / SMALLEST if own else likelihood.noise_std
    return float(noise * estimator.target_scale_[0])


def _readable(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _differ(one: Any, other: Any, answer: str) -> bool:
    """Whether two fits disagree about how much can be known: noise, gain, or trust."""
    if isinstance(one, DimsRegressor):
        ratio = _noise(one) / _noise(other)
        if not 1 / OTHER_NOISE <= ratio <= OTHER_NOISE:
            return True
    if answer == "network":  # the rest was found out about the draws
        return False
    gains = [each.judgement_["gain_on_training_rows"] for each in (one, other)]
    trusted = [trustworthy(each.judgement_) for each in (one, other)]
    return abs(gains[0] - gains[1]) > OTHER_GAIN or trusted[0] != trusted[1]
