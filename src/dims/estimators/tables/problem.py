"""A table as `dims sample` and `dims compare` take it: network, data, and rows it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.pipeline import Pipeline
from torch import Tensor, nn

from dims.baselines.verdict import FEWEST_TO_JUDGE_BY
from dims.estimators import DimsRegressor
from dims.estimators.base import SAMPLER_SETTINGS, DimsEstimator
from dims.estimators.given import Trained
from dims.estimators.tables.preparation import decisions, input_names
from dims.estimators.tables.typed import Table
from dims.model.likelihoods import Likelihood
from dims.sampling.samplers import DiMS, Motion, Sampler, choose_sampler
from dims.sampling.weighing import PARTS

__all__ = ["as_comparison", "as_problem", "print_notes"]

Rows = tuple[Tensor, Tensor]

TO_CHOOSE_BY = 0.2  # of rows that are too few for the estimator to hold some out


def as_problem(
    model: Pipeline, known: Table, held_out: Table
) -> tuple[nn.Module, Rows, str | Likelihood, Rows]:
    """Train the network of a pipeline, without drawing, and print the notes on the table.

    Args:
        model: `make_pipeline(preparation(columns), estimator)`; it is fitted here.
        known: The rows to learn from.
        held_out: Other rows, with targets, for the report and the weights of the draws.

    Returns:
        Network, training data, likelihood and held-out rows, all in the network's units: a target
        of regression is standardised, classes are numbered. Attributes of the network have the
        names of the columns, mean and scale of the target or the labels of the classes, and the
        notes on the table; `dims report` shows these.
    """
    print_notes(model, known)
    prepare, estimator = model[:-1], model[-1]
    features = prepare.fit_transform(known.inputs)
    network, rows, likelihood = estimator.train(features, known.target)
    network.input_names = input_names(model[0])
    network.target_names = [known.target_name]
    unused = [repr(name) for name in known.text if name not in known.inputs]
    left_out = [f"columns that are left out: {', '.join(unused)}"] if unused else []
    network.table_notes = [*_notes(model, known), *left_out]
    network.held_out_lines = [int(line) for line in held_out.lines]
    unseen = estimator.rows_for_network(prepare.transform(held_out.inputs), held_out.target)
    return network, rows, likelihood, unseen


def print_notes(model: Pipeline, known: Table, say: Callable[[str], None] = print) -> None:
    """Print what was found in the file and decided about its columns.

    Args:
        model: A pipeline that begins with `preparation(columns)`; it stays as it is.
        known: The rows to learn from.
        say: What prints a line.
    """
    for note in _notes(model, known):
        say(f"note: {note}")


def _notes(model: Pipeline, known: Table) -> list[str]:
    return [*known.notes, *decisions(model[0], known)]


def as_comparison(model: Pipeline, known: Table, held_out: Table) -> dict[str, Any]:
    """Train the network of a pipeline, and give it to `dims.compare` with its rows.

    All methods choose by the rows that the estimator keeps from its network to weigh draws by. Of
    fewer than 100 rows it keeps none; then a fifth of `known` is held out for them, and the
    network is trained on the rest.

    Args:
        model: `make_pipeline(preparation(columns), estimator)`; it is fitted here.
        known: The rows to learn from.
        held_out: Other rows, with targets, to score all methods on.

    Returns:
        Arguments of `dims.compare`; scores will be in the units of the table.
    """
    print_notes(model, known)
    prepare, estimator = model[:-1], model[-1]
    made = _trained(prepare, estimator, known)
    unseen = made.unseen
    if unseen is None:
        known, chosen_by = known.split(TO_CHOOSE_BY)
        made = _trained(prepare, estimator, known)
        unseen = estimator.rows_for_network(prepare.transform(chosen_by.inputs), chosen_by.target)
    test = estimator.rows_for_network(prepare.transform(held_out.inputs), held_out.target)
    few = len(held_out) < FEWEST_TO_JUDGE_BY
    print(
        f"note: {len(made.inputs)} rows to train on, {len(unseen[0])} for the methods to choose "
        f"by, {len(held_out)} to score on{', which is few' if few else ''}"
    )
    scale = float(estimator.target_scale_[0]) if isinstance(estimator, DimsRegressor) else 1.0
    return {
        "model": made.network,
        "data": (made.inputs, made.targets),
        "likelihood": made.task,
        "validation": unseen,
        "test": test,
        "sampler": _sampler(estimator),
        "curvature": estimator.curvature,
        "target_scale": scale,
    }


def _trained(prepare: Pipeline, estimator: DimsEstimator, known: Table) -> Trained:
    features = prepare.fit_transform(known.inputs)
    return estimator._trained(estimator._checked(features, known.target))


def _sampler(estimator: DimsEstimator) -> str | Sampler:
    """What "dims" samples with: as the estimator does, if its method is DiMS."""
    if isinstance(estimator.method, Sampler):
        return estimator.method
    usual = type(estimator)()
    changed = [n for n in SAMPLER_SETTINGS if getattr(estimator, n) != getattr(usual, n)]
    if estimator.method != DiMS.name or not changed:
        return DiMS.name
    forces = {name: getattr(estimator, name) for name in ("friction", "gravity", "tolerance")}
    end = DiMS.max_time if estimator.max_time is None else float(estimator.max_time)
    motion = Motion(**forces, max_time=end, save_at=tuple(part * end for part in PARTS))
    return choose_sampler(DiMS.name, motion, estimator.settle, estimator.certify)
