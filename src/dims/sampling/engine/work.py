"""The unit of work: draws that are computed together, bitwise identical whoever computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar, runtime_checkable

import torch

from dims.curvature import Precision
from dims.mechanics.batch import Progress
from dims.mechanics.snapshot import Checkpoint
from dims.model.shapes import RowVectors
from dims.sampling.draws import Draws
from dims.sampling.perturbations import perturbations
from dims.sampling.progress import RunProgress
from dims.sampling.samplers import Sampler, Start

__all__ = ["Engine", "Job", "Name", "Result", "Work", "with_threads"]

Name = TypeVar("Name")
Result = TypeVar("Result")


@runtime_checkable
class KeptCheckpoint(Checkpoint, Protocol):
    """A checkpoint that can also be told to keep what was offered last, before a run leaves."""

    def keep(self) -> None: ...


@dataclass(frozen=True)
class Job:
    """The draws of one batch: its number, theirs in the run, and whether to be more careful."""

    number: int
    rows: tuple[int, ...]
    finer: bool = False
    checkpoint: KeptCheckpoint | None = field(default=None, compare=False)

    def __str__(self) -> str:
        first, last = self.rows[0], self.rows[-1]
        named = f"draw {first}" if first == last else f"draws {first} to {last}"
        return f"{named}, retried" if self.finer else named


@dataclass(frozen=True)
class Work:
    """Everything a chunk depends on beside its rows; small enough to be sent to a worker.

    Where there are other starts, draw i has that of number i mod their count, this one included.
    """

    start: Start
    precision: Precision
    sampler: Sampler
    seed: int
    threads: int
    others: tuple[tuple[Start, Precision], ...] = ()

    def compute(self, job: Job, report: Callable[[Progress], None] | None = None) -> Draws:
        """The draws of a job. Rounding depends on the number of threads, hence it is fixed."""
        sampler = self.sampler.finer() if job.finer else self.sampler
        with with_threads(self.threads):
            start, noise = self._start_of(job.rows)
            start = replace(start, checkpoint=job.checkpoint, seed=self.seed, numbers=job.rows)
            try:
                draws = sampler.sample(start, noise, self.seed, report)
            except KeyboardInterrupt:
                if job.checkpoint is not None:
                    job.checkpoint.keep()
                raise
        return replace(draws, map_parameters=self.start.position)

    def _start_of(self, rows: Sequence[int]) -> tuple[Start, RowVectors]:
        """Where the draws of these numbers start, and their perturbations."""
        if not self.others:
            parts = [
                perturbations(self.precision, last - first, self.seed, first)
                for first, last in _stretches(rows)
            ]
            return self.start, torch.cat(parts)
        starts = [(self.start, self.precision), *self.others]
        own = [starts[row % len(starts)] for row in rows]
        noise = [
            perturbations(precision, 1, self.seed, row)
            for row, (_, precision) in zip(rows, own, strict=True)
        ]
        positions = torch.stack([start.position for start, _ in own])
        gradients = torch.stack([start.gradient for start, _ in own])
        start = replace(self.start, position=positions, gradient=gradients)
        return start, torch.cat(noise)


@runtime_checkable
class Engine(Protocol):
    """Computes jobs, in any order, and hands each over as soon as it is done."""

    @property
    def threads(self) -> int:
        """Of each worker, in a run that begins; a run that goes on keeps its own."""
        ...

    def run(
        self, work: Work, jobs: Sequence[Job], progress: RunProgress
    ) -> Iterator[tuple[Job, Draws]]: ...

    def each(self, tasks: Mapping[Name, Callable[[], Result]]) -> Iterator[tuple[Name, Result]]:
        """Call tasks that do not depend on each other, such as the runs of an experiment."""
        ...


def _stretches(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Consecutive numbers as (first, one past the last)."""
    first = 0
    for place in range(1, len(rows) + 1):
        if place == len(rows) or rows[place] != rows[place - 1] + 1:
            yield rows[first], rows[place - 1] + 1
            first = place


@contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Inside, torch uses so many."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
