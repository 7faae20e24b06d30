"""From what `Posterior.sample` is given to a sampler object."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from dims.mechanics.dynamics import Friction
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.solvers.base import Solver
from dims.sampling.samplers.base import Sampler
from dims.sampling.samplers.dims import DiMS
from dims.sampling.samplers.la import LA
from dims.sampling.samplers.linla import LinLA
from dims.sampling.samplers.rla import RLA

__all__ = ["SAMPLERS", "Motion", "choose_sampler"]

SAMPLERS: dict[str, type[Sampler]] = {kind.name: kind for kind in (LA, LinLA, RLA, DiMS)}


class Motion(NamedTuple):
    """The keywords of `Posterior.sample` about trajectories; None takes the method's default."""

    friction: float | Friction | None = None
    gravity: float | None = None
    max_time: float | None = None
    precondition: bool | None = None
    solver: str | Solver | None = None
    tolerance: float | None = None
    save_at: Sequence[float] | None = None
    compile: bool | None = None
    metric: str | MovingMetric | None = None


def choose_sampler(
    method: str | Sampler, motion: Motion, settle: str | None, certify: bool | None
) -> Sampler:
    """The sampler of a name and keywords, or the given one, beside which there must be none."""
    given = motion._asdict() | {"certify": certify}
    chosen = {name: value for name, value in given.items() if value is not None}
    if settle != "default":
        chosen["settle"] = settle
    if isinstance(method, Sampler):
        for name in chosen:
            itself = f"{type(method).__name__}({name}=...)"
            raise ValueError(f"{name}: give it to the sampler itself, {itself}")
        return method
    if not isinstance(method, str):
        raise TypeError(
            f"method: expected a name ({', '.join(SAMPLERS)}) or a sampler object such as "
            f"dims.DiMS(), got {method!r}"
        )
    if method not in SAMPLERS:
        raise ValueError(f"method: {method!r} is unknown; there are {', '.join(SAMPLERS)}")
    kind = SAMPLERS[method]
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in chosen:
        if name not in known:
            raise ValueError(f"{name}: it has no meaning for method {method!r}; leave it out")
    return kind(**chosen)
