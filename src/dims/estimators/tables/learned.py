"""What a pipeline has learned from a table, in a folder: the same rows are not learned twice.

Only numbers are kept: draws and network as safetensors, all else as JSON. The preparation is made
anew from the rows, which is quick and always the same.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from dims.errors import (
    DimsWarning,
    NotAMinimumWarning,
    StackingWarning,
    TableError,
    WorseThanBaselineWarning,
)
from dims.estimators.base import DimsEstimator
from dims.estimators.network import untrained
from dims.estimators.tables.plainly import FINISHED
from dims.estimators.tables.predictions import check_answer
from dims.estimators.tables.typed import Table
from dims.sampling.draws.file import load
from dims.sampling.files import write_text_atomically

__all__ = ["fit", "is_learned", "learned"]

Told = tuple[str, str]

FACTS, DRAWS, NETWORK = "learned.json", "draws.safetensors", "network.safetensors"
ABOUT_DRAWS = (ConvergenceWarning, NotAMinimumWarning, StackingWarning, WorseThanBaselineWarning)
UNIMPORTANT = {"verbose"}  # settings that change nothing in what is learned


def learned(model: Pipeline, known: Table, folder: str | Path, answer: str = "draws") -> Pipeline:
    """Fit a pipeline to a table, or take from a folder what it has learned before.

    It is taken where the rows, as the network sees them, all settings of the estimator and the
    versions of dims and torch are the same. Warnings of the fit are given again. Settings that are
    objects of your own, or no `random_state`, cannot be compared; then nothing is kept.

    Args:
        model: `make_pipeline(preparation(columns), estimator)`; it is fitted here.
        known: The rows to learn from.
        folder: Where it is kept; it is made if need be.
        answer: "draws", or "network" where the trained network alone will answer; then warnings
            about draws are kept to themselves.

    Returns:
        The pipeline, which predicts; one that was not fitted now has no `posterior_`.

    Raises:
        TableError: A setting of the estimator is refused, or `answer` is another word.
    """
    check_answer(answer)
    folder, estimator = Path(folder), model[-1]
    features = model[:-1].fit_transform(known.inputs)
    key = _key(estimator, features, known.target)
    facts = _facts(folder) if key is not None else {}
    if key is not None and facts.get("key") == key:
        try:
            _restore(estimator, features, known.target, folder, facts)
        except (OSError, ValueError, LookupError, TypeError) as error:
            print(f"note: {folder} cannot be used ({' '.join(str(error).split())}); trained again")
        else:
            print(
                f"Not trained again: {folder} has it, for these rows and settings; delete that "
                "folder to train again"
            )
            FINISHED.append(folder)
            _warn(facts["warnings"], answer)
            return model
    told = fit(estimator, features, known.target)
    if key is not None:
        _keep(estimator, folder, key, told)
        FINISHED.append(folder)
    _warn(told, answer)
    return model


def fit(estimator: DimsEstimator, features: np.ndarray, target: np.ndarray) -> list[Told]:
    """Fit an estimator, and return its warnings: class and text of each.

    Args:
        estimator: It is fitted here.
        features: Of the rows to learn from.
        target: Of these rows.

    Raises:
        TableError: A setting of the estimator is refused.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator.fit(features, target)
        except (TypeError, ValueError) as error:
            raise TableError(f"estimator(): {error}") from error
    return [(type(each.message).__name__, str(each.message)) for each in caught]


def is_learned(model: Pipeline, folder: str | Path, *tables: Table) -> bool:
    """Whether `learned` has learned all these tables, each in a folder of this one.

    Args:
        model: As for `learned`; it stays as it is.
        folder: The folder of the folders.
        *tables: Rows to learn from.
    """
    kept = {_facts(path.parent).get("key") for path in Path(folder).glob(f"*/{FACTS}")}
    prepared = [(clone(model[:-1]).fit_transform(table.inputs), table.target) for table in tables]
    keys = {_key(model[-1], *each) for each in prepared}
    return None not in keys and keys <= kept


def _warn(told: Iterable[Told], answer: str) -> None:
    """Give the warnings of a fit; where the network answers, none about its draws."""
    for name, text in told:
        kind = _category(name)
        if answer == "draws" or not issubclass(kind, ABOUT_DRAWS):
            warnings.warn(text, kind, stacklevel=3)


def _key(estimator: DimsEstimator, features: np.ndarray, target: np.ndarray) -> str | None:
    """What the answer depends on, as a hash; None where that cannot be said."""
    from dims import __version__  # the package imports this module

    settings = {n: v for n, v in estimator.get_params().items() if n not in UNIMPORTANT}
    kind = f"{type(estimator).__module__}.{type(estimator).__qualname__}"
    if settings["random_state"] is None or not kind.startswith("dims."):
        return None
    described = [kind, settings, __version__, torch.__version__, features.shape]
    try:
        text = json.dumps([*described, target.tolist()], sort_keys=True)
    except TypeError:
        return None
    return hashlib.sha256(text.encode() + np.ascontiguousarray(features).tobytes()).hexdigest()


def _keep(estimator: DimsEstimator, folder: Path, key: str, told: list[Told]) -> None:
    """The key is written last, and is gone while the rest changes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FACTS).unlink(missing_ok=True)
    estimator.draws_.save(folder / DRAWS, overwrite=True)
    estimator.network_only().draws_.save(folder / NETWORK, overwrite=True)
    outputs = estimator.draws_.surface.outputs
    facts = {"key": key, "warnings": told, "epochs": estimator.epochs_, "outputs": outputs}
    facts["skip"] = estimator.skip_
    write_text_atomically(folder / FACTS, json.dumps(facts | {"judgement": estimator.judgement_}))


def _facts(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / FACTS).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _restore(
    estimator: DimsEstimator,
    features: np.ndarray,
    target: np.ndarray,
    folder: Path,
    facts: dict[str, Any],
) -> None:
    """All that `fit` sets but `posterior_`; the weights of the network come from the files."""
    given = estimator._checked(features, target)
    outputs = int(facts.get("outputs", given.outputs))
    estimator.skip_ = bool(facts["skip"])
    network = untrained(estimator, given.features, outputs, torch.Generator(), estimator.skip_)
    estimator.draws_ = load(folder / DRAWS, network)
    estimator._network_draws = load(folder / NETWORK, network)
    estimator.epochs_, estimator.judgement_ = int(facts["epochs"]), dict(facts["judgement"])


def _category(name: str) -> type[Warning]:
    """A class of warnings by its name."""
    known = (ConvergenceWarning, *DimsWarning.__subclasses__())
    return {kind.__name__: kind for kind in known}.get(name, UserWarning)
