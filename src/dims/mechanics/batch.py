"""Runs many trajectories at once: each with its own time, step, status and statistics.

Finished and failed rows leave the batch, so the slowest row does not pay for all; a row that cannot
go on ends with a status and its last good state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from dims.errors import SnapshotError
from dims.mechanics.clock import Clock
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.events import StopCondition
from dims.mechanics.interrupts import held
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.motion import Motion
from dims.mechanics.record import Outcome, Progress, Record
from dims.mechanics.rows import select_rows
from dims.mechanics.snapshot import Checkpoint
from dims.mechanics.solvers.base import RowState, Solver
from dims.mechanics.status import Status
from dims.mechanics.stepper import REPLAYS, stepper
from dims.model.shapes import RowVectors, Times
from dims.surface.base import BaseSurface

__all__ = [
    "SHRINK",
    "SMALLEST_COMPILED",
    "Options",
    "Outcome",
    "Progress",
    "Solver",
    "batch_sizes",
    "run",
]

CHECK_EVERY = 8  # calls of `advance` between two looks at which rows are done
CHECK_COMPILED_EVERY = 32  # on a CPU, where a look takes as long as several steps of few rows
KEEP_FULL = 0.8  # compact when fewer than this part of the rows still run
SMALLEST_COMPILED = {"cpu": 4, "cuda": 16}  # rows; below, a compiled step takes as long
FIRST_FORECAST = 2_000  # evaluations of a row, before which its speed says little
MOST_EVALUATIONS = 1_000_000  # a row that at its speed would need more until the end is given up
SHRINK = {"cpu": 2, "cuda": 4}  # of compiled batches; a GPU hardly feels half a batch less
# The part of the rows that wait for a refresh before they get it, where steps are a CUDA graph: a
# refresh is hundreds of calls of the GPU, and takes as long for few rows as for many.
GATHER = 0.75


@dataclass(frozen=True)
class Options:
    """What `run` does beside stepping rows to their end."""

    save: bool = False  # keep the states at all times, not at the end alone
    max_evaluations: int | None = None
    stop: StopCondition | None = None
    compiled: bool = False
    progress: Callable[[Progress], None] | None = None
    checkpoint: Checkpoint | None = None
    metric: MovingMetric | None = None
    numbers: Sequence[int] | None = None  # of the rows, for what is random


PLAIN = Options()


def run(
    solver: Solver,
    surface: BaseSurface,
    dynamics: Dynamics,
    position: RowVectors,
    velocity: RowVectors,
    times: Times,
    options: Options = PLAIN,
) -> Outcome:
    """Integrate all rows until the last of `times`, landing on each of them."""
    compiled, metric, device = options.compiled, options.metric, position.device
    if compiled and not surface.in_one_piece(len(position)):
        surface, compiled = surface.with_compiled_gradient(), False
    rows = torch.arange(len(position), device=device)
    motion = Motion(solver, surface, dynamics, times, metric, options.stop)
    numbers = rows if options.numbers is None else torch.tensor(options.numbers, device=device)
    clock = Clock(device, running=metric is not None, compiled=compiled)
    state = motion.begin(position, velocity, numbers, clock)
    store = Record(state, len(times) if options.save else 0, float(times[-1]))
    if options.checkpoint is not None:
        rows, state = _resume(options.checkpoint, store, rows, state)

    # Rows that have landed on a time to save, or want another metric, wait for the next look.
    seldom = compiled and device.type == "cpu" and not options.save and metric is None
    ticks = CHECK_COMPILED_EVERY if seldom else CHECK_EVERY
    step_many = stepper(motion.tick, ticks, compiled, device, REPLAYS if metric is None else 1)
    gather = GATHER if compiled and device.type == "cuda" else 0.0
    sizes = None
    if compiled or surface.compiled:
        smallest = SMALLEST_COMPILED[device.type] if compiled else 1
        sizes = batch_sizes(len(position), SHRINK[device.type], smallest)
    while True:
        waiting = int((state.refreshing & state.running).sum())
        if waiting > gather * int(state.running.sum()):
            with held():  # it changes the state in place
                state = motion.refresh(state, clock)
                _offer(options.checkpoint, store, rows, state)
        stepped = clock.step(step_many, state)
        with held():
            if options.save:
                store.save(rows, stepped, len(times))
            store.file_page(rows, stepped.ledger)
            state = _after_look(stepped, options.max_evaluations, float(times[-1]))
            running = state.running
            alive = int(running.sum())
            size = fitting_size(alive, len(rows), sizes)
            tell = options.progress
            now = None if tell is None else store.progress(state, len(position) - alive)
            if size < len(rows) and alive:
                store.put(rows, state)
                kept = running.argsort(descending=True, stable=True)[:size]
                rows, state = rows[kept], select_rows(state, kept)
            _offer(options.checkpoint, store, rows, state)
        if tell is not None and now is not None:
            tell(now)
        if alive == 0:
            store.put(rows, state)
            return store.outcome(dynamics, clock.gradient)


def _offer(checkpoint: Checkpoint | None, store: Record, rows: Tensor, state: RowState) -> None:
    """Let the batch be left in this state."""
    if checkpoint is not None:
        checkpoint.offer(partial(store.pack, rows, state))


def _after_look(state: RowState, max_evaluations: int | None, end: float) -> RowState:
    """Saved rows may go on, rows without a budget end, and the ledger begins a new page."""
    used = state.ledger.evaluations
    if max_evaluations is not None:
        spent = used >= max_evaluations
    else:  # absurd settings (friction 1e9) would keep a row moving for days
        spent = (used >= FIRST_FORECAST) & (used * end > MOST_EVALUATIONS * state.time)
    status = torch.where(state.running & spent, Status.BUDGET_SPENT.code, state.status)
    landed = torch.zeros_like(state.landed)
    return replace(state, landed=landed, status=status, ledger=state.ledger.turn_page())


def _resume(
    checkpoint: Checkpoint, store: Record, rows: Tensor, state: RowState
) -> tuple[Tensor, RowState]:
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
