"""A table as `dims sample` takes it: a trained network, its data, and rows that it has not seen."""

from __future__ import annotations

from sklearn.pipeline import Pipeline
from torch import Tensor, nn

from dims.estimators.tables.preparation import input_names
from dims.estimators.tables.typed import Table

__all__ = ["as_problem"]

Rows = tuple[Tensor, Tensor]


def as_problem(model: Pipeline, known: Table, held_out: Table) -> tuple[nn.Module, Rows, str, Rows]:
    """Train the network of a pipeline, without drawing.

    Args:
        model: `make_pipeline(preparation(columns), estimator)`; it is fitted here.
        known: The rows to learn from.
        held_out: Other rows, with targets, for the report and the weights of the draws.

    Returns:
        Network, training data, likelihood and held-out rows, all in the network's units: a target
        of regression is standardised, classes are numbered. Attributes of the network have the
        names of the columns, and mean and scale of the target or the labels of the classes;
        `dims report` shows these.
    """
    prepare, estimator = model[:-1], model[-1]
    features = prepare.fit_transform(known.inputs)
    network, rows, likelihood = estimator.train(features, known.target)
    network.input_names = input_names(model[0])
    network.target_names = [known.target_name]
    unseen = estimator.rows_for_network(prepare.transform(held_out.inputs), held_out.target)
    return network, rows, likelihood, unseen
