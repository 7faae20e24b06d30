"""Weights of draws by the held-out rows of a posterior."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dims.errors import StackingWarning
from dims.mechanics.checks import check_max_time
from dims.model.training_data import TrainingData
from dims.sampling.draws import Draws
from dims.sampling.engine import Engine
from dims.sampling.progress import stage
from dims.sampling.samplers import DiMS, Sampler

if TYPE_CHECKING:
    from dims.sampling.posterior import Posterior

__all__ = ["Way", "times_to_weigh", "weighed", "weighed_before"]

PARTS = (1 / 3,)  # of max_time, at which draws are kept to be weighed
WEIGHED_DRAWS = 10  # that have not seen the held-out rows, where others have: there are few weights


class Way(NamedTuple):
    """How draws were made, so that others can be made alike."""

    sampler: Sampler
    chunk_size: int  # more at once may not fit into memory
    engine: Engine
    progress: bool | Callable[..., None]


def times_to_weigh(
    posterior: Posterior,
    method: str | Sampler,
    max_time: float | None,
    save_at: Sequence[float] | None,
) -> Sequence[float] | None:
    """`save_at` of draws that rows will weigh, where DiMS is named and no times are given."""
    weighs = posterior.validation is not None or posterior.before is not None
    if not weighs or method != DiMS.name or save_at is not None:
        return save_at
    end = DiMS.max_time if max_time is None else max_time
    check_max_time(end)
    return tuple(part * end for part in PARTS)


def weighed(draws: Draws, rows: TrainingData | None) -> Draws:
    """The draws with weights by held-out rows; as they are where that is impossible."""
    if rows is None:
        return draws
    try:
        return draws.stacked(rows)
    except ValueError as error:
        warnings.warn(
            f"the held-out rows could not weigh the draws, which all count alike: {error}",
            StackingWarning,
            stacklevel=6,  # the caller of `sample`, which is decorated
        )
        return draws


def weighed_before(draws: Draws, before: Posterior, way: Way) -> Draws:
    """The draws with the weights of the first of them in the posterior before they saw the rows."""
    few = min(len(draws), WEIGHED_DRAWS)
    with stage(way.progress, "weighing by held-out rows"):
        unseen = before.sample(
            few,
            way.sampler,
            seed=draws.seed or 0,
            chunk_size=way.chunk_size,
            engine=way.engine,
            progress=False,
        )
    found = unseen.mixture
    if found is None or not found.held_out:  # it has been warned
        return draws
    tangents = None if draws.mixture is None else draws.mixture.tangents
    return replace(draws, mixture=replace(found, tangents=tangents, refit=True))
