"""Held-out rows of an estimator: the length of training, and whether its answer is any good.

Rows are split once: most are trained on, some choose the length of training, and others, which
chose nothing, weigh network and draws and judge the answer beside the mean or the class
frequencies. Where there are too few rows to hold any out, the evidence judges instead.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dims.baselines.row_scores import error_rows, nll_rows
from dims.errors import WorseThanBaselineWarning
from dims.model.copies import parts_of
from dims.model.likelihoods import Likelihood
from dims.model.training import Training, train
from dims.sampling.draws import Draws
from dims.sampling.posterior import Posterior

__all__ = [
    "CLEAR_STRAIGHT_LINE",
    "Rows",
    "complaint_about",
    "constant_scores",
    "evidence_gain",
    "explains_nothing",
    "held_out_each",
    "held_out_gains",
    "judge",
    "split_rows",
    "train_for_best_length",
    "trustworthy",
]

FEWEST_HELD_OUT = 10  # rows of each of the two parts
NEGLIGIBLE = 0.01  # nats a row
# Nats by which one more row may speak for the draws: a network alone is far off on a few rows, and
# ten held-out rows often hold none of them, so that their standard error is too small.
UNSEEN = 2.0
CLEAR_EVIDENCE = 1.0  # nats; among 90 tables whose target is noise alone, none had more than 0.3
# The same for a straight line, which is tried where nothing else was found: about one in 200
# tables of noise has more.
CLEAR_STRAIGHT_LINE = 4.0


class Rows(NamedTuple):
    """Numbers of the rows to train on, to choose the length by, and to weigh and judge by."""

    training: Tensor
    length: Tensor
    judging: Tensor


def held_out_each(points: int, fraction: float) -> int:
    """How many rows choose the length of training, and as many judge; 0 where they are too few."""
    each = round(0.5 * fraction * points)
    return each if each >= FEWEST_HELD_OUT else 0


def split_rows(points: int, fraction: float, seed: int, copies: Tensor | None = None) -> Rows:
    """Half of the fraction for each purpose; nothing is held out where there are too few rows.

    Rows that are copies of each other (`equal_rows`) serve the same purpose.
    """
    each = held_out_each(points, fraction)
    if not each:
        nothing = torch.empty(0, dtype=torch.int64)
        return Rows(torch.arange(points), nothing, nothing)
    order = torch.randperm(points, generator=torch.Generator().manual_seed(seed))
    length, judging, training = parts_of(order, [each, each], copies)
    return Rows(training, length, judging)


def train_for_best_length(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    likelihood: Likelihood,
    training: Training,
    rows: Rows,
) -> int:
    """Train in place, for as many epochs as the rows for it prefer, then on these rows too.

    Returns:
        The number of epochs.
    """

    def loss(outputs: Tensor, answers: Tensor) -> Tensor:
        return likelihood.training_loss(outputs, answers).mean()

    epochs = training.epochs
    if len(rows.length) and epochs > 1:
        trial = copy.deepcopy(network)
        seen: list[tuple[float, int]] = []

        def look(part: float) -> None:
            with torch.no_grad():
                outputs = trial(inputs[rows.length])
                score = likelihood.negative_log(outputs, targets[rows.length]).mean()
            if score.isfinite():
                seen.append((float(score), round(part * epochs) + 1))

        train(trial, inputs[rows.training], targets[rows.training], loss, training, report=look)
        epochs = min(seen)[1] if seen else epochs
    both = torch.cat([rows.training, rows.length])
    shorter = Training(epochs, None, training.learning_rate, training.weight_decay)
    train(network, inputs[both], targets[both], loss, shorter)
    return epochs


def judge(posterior: Posterior, draws: Draws) -> dict[str, float]:
    """Compare the answer with the mean or the class frequencies, and with the network alone.

    Two opinions count: the score of held-out rows, and the evidence of the rows that were learned
    from. It is warned where held-out rows contradict the answer, or where neither of the two
    supports it clearly.

    Returns:
        What was found, as `DimsEstimator` documents it.
    """
    data = posterior.surface.data
    known = data.targets
    found = {"evidence_over_constant": evidence_gain(posterior, known), "rows": 0.0}
    constant, _ = constant_scores(posterior.surface.likelihood.task, known, known)
    seen = -nll_rows(draws.predict(data.inputs), known) - constant
    found["gain_on_training_rows"] = float(seen.mean())
    if posterior.validation is not None:
        rows = posterior.validation
        assert isinstance(rows.inputs, Tensor)
        found |= held_out_gains(draws, rows.inputs, rows.targets, known)
    complaint = complaint_about(found, posterior.surface.likelihood.task)
    if complaint:
        warnings.warn(complaint, WorseThanBaselineWarning, stacklevel=3)  # the caller of `fit`
    return found


def trustworthy(found: Mapping[str, float]) -> bool:
    """Whether an answer is better than a constant one, by all that is known."""
    supported = found["evidence_over_constant"] > CLEAR_EVIDENCE
    if found["gain_on_training_rows"] < 0:  # the evidence speaks of the network, not of the draws
        return False
    if not found["rows"]:
        return supported
    gain, gain_error = found["gain_over_constant"], found["gain_over_constant_error"]
    saved, saved_error = found["error_saved"], found["error_saved_error"]
    contradicted = gain < -gain_error or saved < -saved_error
    convincing = gain > 2 * gain_error and saved >= 0
    return not contradicted and (supported or convincing)


def held_out_gains(
    draws: Draws, inputs: Tensor, targets: Tensor, known: Tensor
) -> dict[str, float]:
    """What the answer gains over a constant one, in nats a row and in errors, on held-out rows.

    These rows have weighed the draws too, so the gain of weighing is the cross-validated one.
    """
    surface, predictive = draws.surface, draws.predict(inputs)
    network = Draws.from_parameters(surface, surface.initial.unsqueeze(0)).predict(inputs)
    alone, answer = -nll_rows(network, targets), -nll_rows(predictive, targets)
    scores, errors = constant_scores(surface.likelihood.task, targets, known)
    own, own_error = float((answer - alone).mean()), _standard_error(answer - alone)
    if draws.mixture is not None and math.isfinite(draws.mixture.gain):
        own, own_error = draws.mixture.gain, draws.mixture.gain_error
    saved = errors - error_rows(predictive, targets)
    return {
        "rows": float(len(targets)),
        "gain_over_constant": float((alone - scores).mean()) + own,
        "gain_over_constant_error": _standard_error(answer - scores),
        "error_saved": float(saved.mean()),
        "error_saved_error": _standard_error(saved),
        "gain_over_network": own,
        "gain_over_network_error": own_error,
    }


def explains_nothing(posterior: Posterior, least: float = CLEAR_EVIDENCE) -> bool:
    """Whether its evidence is not better than that of a constant answer by some nats."""
    return evidence_gain(posterior, posterior.surface.data.targets) <= least


def evidence_gain(posterior: Posterior, targets: Tensor) -> float:
    """Log evidence less that of a constant answer, in nats of all rows together.

    The constant has the values of largest likelihood; in regression its noise is tuned as that of
    the network is, and so costs neither of the two anything.
    """
    scores, _ = constant_scores(posterior.surface.likelihood.task, targets, targets)
    return posterior.log_marginal_likelihood - float(scores.sum())


def _standard_error(rows: Tensor) -> float:
    return float(rows.std()) / math.sqrt(len(rows))


def complaint_about(found: Mapping[str, float], task: str) -> str:
    """Why an answer should not be trusted; "" where it may be."""
    rows = f"{found['rows']:.0f} held-out rows"
    more = found["evidence_over_constant"]
    evidence = f"its log evidence is {abs(more):.1f} nats {'higher' if more >= 0 else 'lower'}"
    if found["gain_on_training_rows"] < 0:
        evidence += f", {found['gain_on_training_rows']:+.3f} nats a row on training rows"
    if not trustworthy(found):
        grounds = f"by the evidence ({evidence}), and there are too few rows to hold some out"
        if found["rows"]:
            gain, error = found["gain_over_constant"], found["gain_over_constant_error"]
            grounds = f"by {rows} ({gain:+.3f} ± {error:.3f} nats a row; {evidence})"
        name = "the class frequencies" if task == "classification" else "the mean"
        return (
            f"the answer is not clearly better than {name} {grounds}: do not trust it. Give more "
            "rows, other features, or a smaller network"
        )
    gain, error = found.get("gain_over_network", 0.0), found.get("gain_over_network_error", 0.0)
    if gain + 2 * error < -(NEGLIGIBLE + UNSEEN / max(found["rows"], 1.0)):
        return (
            f"by {rows} the answer is worse than the network alone "
            f"({gain:+.3f} ± {error:.3f} nats a row): compare with network_only()"
        )
    return ""


def constant_scores(task: str, targets: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Log scores and errors of N(mean, variance), or of the class frequencies, at each target."""
    if task == "classification":
        labels, given = targets.long().reshape(-1), known.long().reshape(-1)
        classes = int(max(labels.max(), given.max())) + 1
        counts = torch.bincount(given, minlength=classes).double() + 1.0
        share = counts / counts.sum()
        return share[labels].log(), (labels != share.argmax()).double()
    mean, variance = known.mean(0), known.var(0, correction=0).clamp(min=1e-12)
    squares = (targets - mean).square()
    scores = -0.5 * (squares / variance + (2 * math.pi * variance).log())
    return scores.sum(-1).double(), squares.mean(-1).double()
