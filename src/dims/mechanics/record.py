"""What a batch keeps of all its rows while it shrinks, and what it returns at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from dims.errors import SnapshotError
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.ledger import Ledger, energy_violation
from dims.mechanics.rows import map_tensors
from dims.mechanics.snapshot import flatten, restore
from dims.mechanics.solvers.base import RowState
from dims.mechanics.status import Status
from dims.model.shapes import RowIntegers, RowScalars, RowVectors

__all__ = ["Outcome", "Progress", "Record"]

SAVED = ("positions", "velocities", "climbs", "dissipated", "excess")  # at the asked times
PAGE = ("page_rows", "page_rise", "page_lowest")


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
    excess: RowScalars  # T in the metric of the motion less T in the euclidean one
    saved_excess: Tensor | None  # (times, rows)
    refreshes: RowIntegers
    gradient_equivalents: RowScalars


class Record:
    """Full-size results that the shrinking batch writes back into."""

    def __init__(self, state: RowState, saves: int, end_time: float) -> None:
        self.state = _end(state)
        self.end_time = end_time
        self.pages: list[tuple[Tensor, Tensor, Tensor]] = []
        shape = (saves, *state.position.shape)
        self.positions = state.velocity.new_full(shape, torch.nan)
        self.velocities = state.velocity.new_full(shape, torch.nan)
        self.climbs = state.time.new_full(shape[:2], torch.nan)
        self.dissipated = state.time.new_full(shape[:2], torch.nan)
        self.excess = state.time.new_full(shape[:2], torch.nan)
        self.saves = saves

    def put(self, rows: Tensor, state: RowState) -> None:
        self.state = map_tensors(lambda a, b: a.index_copy(0, rows, b), self.state, _end(state))

    def save(self, rows: Tensor, state: RowState, goals: int) -> None:
        """File the rows that wait on a goal; a finished row keeps the index of its last."""
        landed = state.landed.nonzero().squeeze(-1)
        finished = state.status[landed] == Status.FINISHED.code
        at = torch.where(finished, goals - 1, state.goal[landed] - 1)
        which = rows[landed]
        self.positions[at, which] = state.position[landed].to(self.positions.dtype)
        self.velocities[at, which] = state.frame.lift(state.velocity)[landed]
        self.excess[at, which] = _excess(state)[landed]
        self.climbs[at, which] = state.moment.climb[landed]
        self.dissipated[at, which] = state.ledger.dissipated[landed]

    def file_page(self, rows: Tensor, ledger: Ledger) -> None:
        self.pages.append((rows, ledger.largest_rise, ledger.lowest_since))

    def progress(self, state: RowState, done: int) -> Progress:
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

    def pack(self, rows: Tensor, state: RowState) -> dict[str, Tensor]:
        """The whole batch: the rows that still run, those that ended, and the energy pages."""
        kept = {name: getattr(self, name) for name in SAVED}
        lengths = torch.tensor([len(page[0]) for page in self.pages])
        pages = [torch.cat(column) for column in zip(*self.pages, strict=True)]
        kept |= {"rows": rows, "page_lengths": lengths}
        kept |= dict(zip(PAGE, pages, strict=True))
        return kept | flatten(state, "state") | flatten(self.state, "ends")

    def unpack(self, tensors: dict[str, Tensor], start: RowState) -> tuple[Tensor, RowState]:
        """The inverse of `pack`; nothing is changed where the tensors do not fit."""
        device, total = start.time.device, len(start.time)
        try:
            rows = tensors["rows"].to(device)
            columns = [tensors[name].to(device) for name in PAGE]
            lengths = tensors["page_lengths"].tolist()
            pages = list(zip(*(column.split(lengths) for column in columns), strict=True))
            if "excess" not in tensors:  # as before there was another metric; NaN if not saved yet
                tensors = {**tensors, "excess": 0 * tensors["dissipated"]}
            saved = {name: tensors[name].to(device) for name in SAVED}
            known = all(0 <= row < total for row in (*rows.tolist(), *columns[0].tolist()))
        except (KeyError, RuntimeError, TypeError) as error:
            raise SnapshotError(f"no state of a batch ({type(error).__name__})") from error
        if not known or any(saved[n].shape != getattr(self, n).shape for n in SAVED):
            raise SnapshotError("the state of a batch of another size")
        ends = restore(_end(start), "ends", tensors, total)
        state = restore(start, "state", tensors, len(rows))
        self.state, self.pages = ends, pages
        for name, tensor in saved.items():
            setattr(self, name, tensor)
        return rows, state

    def outcome(self, dynamics: Dynamics, gradient_time: float) -> Outcome:
        """Rows that ended early stay where they ended at the times they did not reach."""
        end = self.state
        position = end.position.to(end.velocity.dtype)  # a solver may carry more digits
        if self.saves:
            missed = self.dissipated.isnan()
            self.positions = torch.where(missed.unsqueeze(-1), position, self.positions)
            self.velocities = torch.where(missed.unsqueeze(-1), end.velocity, self.velocities)
            self.climbs = torch.where(missed, end.moment.climb, self.climbs)
            self.excess = torch.where(missed, _excess(end), self.excess)
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
            _excess(end),
            self.excess if self.saves else None,
            end.frame.refreshes,
            end.ledger.evaluations + end.ledger.refresh_time / gradient_time,
        )


def _end(state: RowState) -> RowState:
    """A state whose velocity is θ' and which holds no directions; `speed` stays."""
    frame = state.frame
    return replace(state, velocity=frame.lift(state.velocity), frame=frame.without_basis())


def _excess(state: RowState) -> RowScalars:
    """½(‖φ'‖² − ‖θ'‖²), from T and the euclidean speed; zero in the euclidean metric."""
    moved = state.frame.refreshes > 0
    excess = state.moment.kinetic - 0.5 * state.frame.speed.square()
    return excess.where(moved, 0.0)
