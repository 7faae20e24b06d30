"""The network of an estimator, trained on some rows for as long as others prefer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dims.estimators.care import split_rows, train_for_best_length
from dims.estimators.given import Checked, Trained
from dims.estimators.network import untrained
from dims.model.copies import equal_rows
from dims.model.likelihoods import resolve_likelihood
from dims.model.shapes import check_flag, check_integer, check_positive
from dims.model.training import Training

__all__ = ["trained"]


def trained(estimator: Any, given: Checked, seeds: np.ndarray) -> Trained:
    """A trained network, the rows that it has seen, and those to weigh its draws by.

    Args:
        estimator: Its settings.
        given: Rows that have been checked.
        seeds: Of the first weights, of the draws and of the split, (3,).

    Raises:
        ValueError: A setting is out of its range, or training diverged.
    """
    check_integer("epochs", estimator.epochs, lowest=0)
    check_integer("draws", estimator.draws)
    if estimator.skip is not None:
        check_flag("skip", estimator.skip)
    rate = check_positive("learning_rate", estimator.learning_rate)
    decay = check_positive("weight_decay", estimator.weight_decay, or_zero=True)
    fraction = estimator.validation_fraction
    if not 0 <= fraction < 1:
        raise ValueError(f"validation_fraction: must lie in [0, 1), got {fraction}")
    first_seed, draw_seed, split_seed = map(int, seeds)
    generator = torch.Generator().manual_seed(first_seed)
    network = untrained(estimator, given.features, given.outputs, generator, given.skip)
    inputs, answers = torch.tensor(given.features), torch.tensor(given.targets)
    likelihood = resolve_likelihood(given.task, given.outputs)
    targets = likelihood.check_targets(network(inputs), answers)
    rows = split_rows(len(inputs), fraction, split_seed, equal_rows(inputs, answers))
    training = Training(estimator.epochs, None, rate, decay)
    epochs = train_for_best_length(network, inputs, targets, likelihood, training, rows)
    if not all(parameter.isfinite().all() for parameter in network.parameters()):
        raise ValueError(
            f"learning_rate: training diverged at {estimator.learning_rate}; choose a smaller one"
        )
    kept = torch.cat([rows.training, rows.length])
    unseen = (inputs[rows.judging], answers[rows.judging]) if len(rows.judging) else None
    known = (inputs[kept], answers[kept])
    return Trained(network, *known, given.task, unseen, draw_seed, epochs, given.skip)
