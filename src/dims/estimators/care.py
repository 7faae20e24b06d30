"""Held-out rows of an estimator: the length of training, and whether its answer is any good.

Rows are split once: most are trained on, some choose the length of training, and others, which
chose nothing, weigh network and draws and judge the answer beside the mean or the class
frequencies. Where there are too few rows to hold any out, the evidence judges instead.
"""

from __future__ import annotations

import copy
import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dims.baselines.row_scores import error_rows, nll_rows
from dims.errors import WorseThanBaselineWarning
from dims.model.likelihoods import Likelihood
from dims.model.training import Training, train
from dims.sampling.draws import Draws
from dims.sampling.posterior import Posterior

__all__ = [
    "Rows",
    "constant_name",
    "constant_scores",
    "judge",
    "judge_by_evidence",
    "split_rows",
    "train_for_best_length",
]

FEWEST_HELD_OUT = 10  # rows of each of the two parts


class Rows(NamedTuple):
    """Numbers of the rows to train on, to choose the length by, and to weigh and judge by."""

    training: Tensor
    length: Tensor
    judging: Tensor


def split_rows(points: int, fraction: float, seed: int) -> Rows:
    """Half of the fraction for each purpose; nothing is held out where there are too few rows."""
    each = round(0.5 * fraction * points)
    if each < FEWEST_HELD_OUT:
        nothing = torch.empty(0, dtype=torch.int64)
        return Rows(torch.arange(points), nothing, nothing)
    order = torch.randperm(points, generator=torch.Generator().manual_seed(seed))
    return Rows(order[2 * each :], order[:each], order[each : 2 * each])


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
        return likelihood.negative_log(outputs, answers).mean()

    epochs = training.epochs
    if len(rows.length) and epochs > 1:
        trial = copy.deepcopy(network)
        seen: list[tuple[float, int]] = []

        def look(part: float) -> None:
            with torch.no_grad():
                score = loss(trial(inputs[rows.length]), targets[rows.length])
            if score.isfinite():
                seen.append((float(score), round(part * epochs) + 1))

        train(trial, inputs[rows.training], targets[rows.training], loss, training, report=look)
        epochs = min(seen)[1] if seen else epochs
    both = torch.cat([rows.training, rows.length])
    shorter = Training(epochs, None, training.learning_rate, training.weight_decay)
    train(network, inputs[both], targets[both], loss, shorter)
    return epochs


def judge(draws: Draws, inputs: Tensor, targets: Tensor, known: Tensor) -> dict[str, float]:
    """Compare the answer with the mean or class frequencies of `known` targets, on held-out rows.

    Returns:
        Gains in nats a row over that and over the network alone (the weights are cross-validated).
    """
    network = Draws.from_parameters(draws.surface, draws.surface.initial.unsqueeze(0))
    alone = network.predict(inputs).log_scores(targets)[0].cpu()
    plain_scores, plain_errors = constant_scores(draws.surface.likelihood.task, targets, known)
    own = 0.0 if draws.mixture is None else draws.mixture.gain
    error = 0.0 if draws.mixture is None else draws.mixture.gain_error
    gains = alone - plain_scores
    gain, spread = float(gains.mean()) + own, float(gains.std()) / math.sqrt(len(gains))
    predictive = draws.predict(inputs)
    answer = -nll_rows(predictive, targets) - plain_scores
    lost = error_rows(predictive, targets) - plain_errors
    worse = float(lost.mean())
    name = constant_name(draws.surface.likelihood.task)
    if gain < spread or worse > 0:
        _warn(
            f"on {len(targets)} held-out rows the answer is not better than {name} of the training "
            f"rows (log score {gain:+.3f} ± {spread:.3f} nats a row): do not trust it. Give more "
            "rows, other features, or a smaller network"
        )
    elif own < -2 * error:
        _warn(
            f"on {len(targets)} held-out rows the answer is worse than the network alone "
            f"({own:+.3f} ± {error:.3f} nats a row)"
        )
    return {
        "gain_over_constant": gain,
        "gain_over_network": own,
        "rows": float(len(targets)),
        "spread": spread,
        "worse": worse,
        "worse_error": float(lost.std()) / math.sqrt(len(lost)),
        "own_error": error,
        "answer": float(answer.mean()),
        "answer_error": float(answer.std()) / math.sqrt(len(answer)),
        "alone": float(gains.mean()),
    }


def judge_by_evidence(posterior: Posterior, targets: Tensor) -> dict[str, float]:
    """Compare the evidence with that of the mean or class frequencies, where no rows are held out.

    The evidence of the constant model is BIC's: its log-likelihood less ½·log N a parameter.
    """
    points, task = len(targets), posterior.surface.likelihood.task
    scores, _ = constant_scores(task, targets, targets)
    parameters = int(targets.max()) if task == "classification" else 2 * targets.shape[-1]
    constant = float(scores.sum()) - 0.5 * parameters * math.log(points)
    gain = (posterior.log_marginal_likelihood - constant) / points
    if gain < 0:
        _warn(
            f"{points} rows are too few to hold some out, and by the evidence the network explains "
            f"them worse than {constant_name(task)} ({gain:+.3f} nats a row): do not trust it. "
            "Give more rows, other features, or a smaller network"
        )
    return {"gain_over_constant": gain, "rows": 0.0}


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


def constant_name(task: str) -> str:
    return "the class frequencies" if task == "classification" else "the mean"


def _warn(message: str) -> None:
    warnings.warn(message, WorseThanBaselineWarning, stacklevel=5)  # the caller of `fit`
