"""Runs many trajectories at once: each with its own time, step, status and statistics.

Finished and failed rows leave the batch, so the slowest row does not pay for all; a row that cannot
go on ends with a status and its last good state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from dims.errors import SnapshotError
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.events import StopCondition
from dims.mechanics.ledger import Ledger, energy_violation
from dims.mechanics.rows import select_rows
from dims.mechanics.snapshot import Checkpoint, flatten, restore
from dims.mechanics.status import Status
from dims.mechanics.stepper import stepper
from dims.model.shapes import RowIntegers, RowScalars, RowVectors, Times
from dims.surface.base import BaseSurface

__all__ = ["SHRINK", "SMALLEST_COMPILED", "Outcome", "Progress", "Solver", "batch_sizes", "run"]

CHECK_EVERY = 8  # calls of `advance` between two looks at which rows are done
CHECK_COMPILED_EVERY = 32  # on a CPU, where a look takes as long as several steps of few rows
KEEP_FULL = 0.8  # compact when fewer than this part of the rows still run
SMALLEST_COMPILED = {"cpu": 4, "cuda": 16}  # rows; below, a compiled step takes as long
SHRINK = {"cpu": 2, "cuda": 4}  # of compiled batches; a GPU hardly feels half a batch less
SAVED = ("positions", "velocities", "climbs", "dissipated")  # at the asked times
PAGE = ("page_rows", "page_rise", "page_lowest")


@runtime_checkable
class Solver(Protocol):
    """One way to step rows through time; its state has the fields that `run` reads."""

    def start(
        self,
        surface: BaseSurface,
        dynamics: Dynamics,
        position: RowVectors,
        velocity: RowVectors,
        max_time: float,
    ) -> Any: ...

    def advance(
        self, state: Any, surface: BaseSurface, dynamics: Dynamics, times: Times
    ) -> Any: ...

    def refresh(self, state: Any, surface: BaseSurface, dynamics: Dynamics) -> Any: ...


class Progress(NamedTuple):
    """What a progress bar wants to know."""

    done: int
    rows: int
    end_time: float
    mean_time: float  # of the rows still running
    mean_kinetic_energy: float
    mean_loss: float


@dataclass(frozen=True)
class Outcome:
    """The end of every row, in the order given, and the states at the asked times."""

    position: RowVectors
    velocity: RowVectors
    climb: RowScalars  # w, the velocity's component along the loss axis
    time: RowScalars
    status: RowIntegers
    ledger: Ledger
    energy_violation: RowScalars
    saved_position: Tensor | None  # (times, rows, size)
    saved_velocity: Tensor | None
    saved_climb: Tensor | None  # (times, rows)
    saved_dissipated: Tensor | None  # (times, rows)


def run(
    solver: Solver,
    surface: BaseSurface,
    dynamics: Dynamics,
    position: RowVectors,
    velocity: RowVectors,
    times: Times,
    *,
    save: bool = False,
    max_evaluations: int | None = None,
    stop: StopCondition | None = None,
    compiled: bool = False,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Integrate all rows until the last of `times`, landing on each of them."""
    if compiled and not surface.in_one_piece(len(position)):
        surface, compiled = surface.with_compiled_gradient(), False
    rows = torch.arange(len(position), device=position.device)
    state = solver.start(surface, dynamics, position, velocity, float(times[-1]))
    store = _Store(state, len(times) if save else 0, float(times[-1]))
    if checkpoint is not None:
        rows, state = _resume(checkpoint, store, rows, state)

    def tick(state: Any) -> Any:
        state = solver.advance(state, surface, dynamics, times)
        return state if stop is None else _apply_stop(state, stop)

    # Rows that have landed on a time to save wait for the next look.
    seldom = compiled and position.device.type == "cpu" and not save
    ticks = CHECK_COMPILED_EVERY if seldom else CHECK_EVERY
    step_many = stepper(tick, ticks, compiled, position.device)
    sizes = None
    if compiled or surface.compiled:
        smallest = SMALLEST_COMPILED[position.device.type] if compiled else 1
        sizes = batch_sizes(len(position), SHRINK[position.device.type], smallest)
    while True:
        if state.refreshing.any():
            state = solver.refresh(state, surface, dynamics)
        state = step_many(state)
        if save:
            store.save(rows, state, len(times))
        state = replace(state, landed=torch.zeros_like(state.landed))
        if max_evaluations is not None:
            spent = state.running & (state.ledger.evaluations >= max_evaluations)
            code = Status.BUDGET_SPENT.code
            state = replace(state, status=torch.where(spent, code, state.status))
        store.file_page(rows, state.ledger)
        state = replace(state, ledger=state.ledger.turn_page())
        running = state.running
        alive = int(running.sum())
        if progress is not None:
            progress(store.progress(state, len(position) - alive))
        size = fitting_size(alive, len(rows), sizes)
        if size < len(rows):
            store.put(rows, state)
            if alive == 0:
                return store.outcome(dynamics)
            kept = running.argsort(descending=True, stable=True)[:size]
            rows, state = rows[kept], select_rows(state, kept)
        if checkpoint is not None and checkpoint.due():
            checkpoint.save(store.pack(rows, state))


def _resume(checkpoint: Checkpoint, store: _Store, rows: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Where an earlier run left off, or the start."""
    tensors = checkpoint.load()
    if tensors is not None:
        try:
            return store.unpack(tensors, state)
        except SnapshotError as error:
            checkpoint.refuse(error)
    return rows, state


def batch_sizes(rows: int, shrink: int, smallest: int) -> list[int]:
    """The numbers of rows that a compiled batch may have, largest first: each is compiled anew, so
    a new one must win a factor of `shrink`."""
    sizes = [rows]
    while sizes[-1] > smallest:
        sizes.append(max(smallest, math.ceil(sizes[-1] / shrink)))
    return sizes


def fitting_size(alive: int, rows: int, sizes: list[int] | None) -> int:
    """How many rows to go on with: those that run, filled up with finished ones to one of the
    sizes."""
    if sizes is None or alive == 0:
        return alive if alive < KEEP_FULL * rows else rows
    return min(size for size in (rows, *sizes) if size >= alive)


def _apply_stop(state: Any, stop: StopCondition) -> Any:
    norm = torch.linalg.vector_norm(state.gradient, dim=-1).double()
    over = stop(state.time, state.moment.loss, state.moment.kinetic, norm)
    over = over & state.running & (state.ledger.steps > 0)
    return replace(state, status=torch.where(over, Status.AT_REST.code, state.status))


class _Store:
    """Full-size results that the shrinking batch writes back into."""

    def __init__(self, state: Any, saves: int, end_time: float) -> None:
        self.state = state
        self.end_time = end_time
        self.pages: list[tuple[Tensor, Tensor, Tensor]] = []
        shape = (saves, *state.position.shape)
        self.positions = state.velocity.new_full(shape, torch.nan)
        self.velocities = state.velocity.new_full(shape, torch.nan)
        self.climbs = state.time.new_full(shape[:2], torch.nan)
        self.dissipated = state.time.new_full(shape[:2], torch.nan)
        self.saves = saves

    def put(self, rows: Tensor, state: Any) -> None:
        self.state = _scatter(self.state, rows, state)

    def save(self, rows: Tensor, state: Any, goals: int) -> None:
        """File the rows that wait on a goal; a finished row keeps the index of its last."""
        landed = state.landed.nonzero().squeeze(-1)
        finished = state.status[landed] == Status.FINISHED.code
        at = torch.where(finished, goals - 1, state.goal[landed] - 1)
        which = rows[landed]
        self.positions[at, which] = state.position[landed].to(self.positions.dtype)
        self.velocities[at, which] = state.velocity[landed]
        self.climbs[at, which] = state.moment.climb[landed]
        self.dissipated[at, which] = state.ledger.dissipated[landed]

    def file_page(self, rows: Tensor, ledger: Ledger) -> None:
        self.pages.append((rows, ledger.largest_rise, ledger.lowest_since))

    def progress(self, state: Any, done: int) -> Progress:
        running = state.running
        few = running.sum().clamp(min=1)

        def mean(values: Tensor) -> float:
            return float((values * running).sum() / few)

        return Progress(
            done,
            len(self.state.position),
            self.end_time,
            mean(state.time),
            mean(state.moment.kinetic),
            mean(state.moment.loss),
        )

    def pack(self, rows: Tensor, state: Any) -> dict[str, Tensor]:
        """The whole batch: the rows that still run, those that ended, and the energy pages."""
        kept = {name: getattr(self, name) for name in SAVED}
        lengths = torch.tensor([len(page[0]) for page in self.pages])
        pages = [torch.cat(column) for column in zip(*self.pages, strict=True)]
        kept |= {"rows": rows, "page_lengths": lengths}
        kept |= dict(zip(PAGE, pages, strict=True))
        return kept | flatten(state, "state") | flatten(self.state, "ends")

    def unpack(self, tensors: dict[str, Tensor], start: Any) -> tuple[Tensor, Any]:
        """The inverse of `pack`; nothing is changed where the tensors do not fit."""
        device, total = start.time.device, len(start.time)
        try:
            rows = tensors["rows"].to(device)
            columns = [tensors[name].to(device) for name in PAGE]
            lengths = tensors["page_lengths"].tolist()
            pages = list(zip(*(column.split(lengths) for column in columns), strict=True))
            saved = {name: tensors[name].to(device) for name in SAVED}
            known = all(0 <= row < total for row in (*rows.tolist(), *columns[0].tolist()))
        except (KeyError, RuntimeError, TypeError) as error:
            raise SnapshotError(f"no state of a batch ({type(error).__name__})") from error
        if not known or any(saved[n].shape != getattr(self, n).shape for n in SAVED):
            raise SnapshotError("the state of a batch of another size")
        ends = restore(start, "ends", tensors, total)
        state = restore(start, "state", tensors, len(rows))
        self.state, self.pages = ends, pages
        for name, tensor in saved.items():
            setattr(self, name, tensor)
        return rows, state

    def outcome(self, dynamics: Dynamics) -> Outcome:
        """Rows that ended early stay where they ended at the times they did not reach."""
        end = self.state
        position = end.position.to(end.velocity.dtype)  # a solver may carry more digits
        if self.saves:
            missed = self.dissipated.isnan()
            self.positions = torch.where(missed.unsqueeze(-1), position, self.positions)
            self.velocities = torch.where(missed.unsqueeze(-1), end.velocity, self.velocities)
            self.climbs = torch.where(missed, end.moment.climb, self.climbs)
            self.dissipated = torch.where(missed, end.ledger.dissipated, self.dissipated)
        return Outcome(
            position,
            end.velocity,
            end.moment.climb,
            end.time,
            end.status,
            end.ledger,
            energy_violation(self.pages, end.ledger, dynamics),
            self.positions if self.saves else None,
            self.velocities if self.saves else None,
            self.climbs if self.saves else None,
            self.dissipated if self.saves else None,
        )


def _scatter(whole: Any, rows: Tensor, part: Any) -> Any:
    fields = {}
    for name in whole.__dataclass_fields__:
        a, b = getattr(whole, name), getattr(part, name)
        fields[name] = a.index_copy(0, rows, b) if isinstance(a, Tensor) else _scatter(a, rows, b)
    return replace(whole, **fields)
