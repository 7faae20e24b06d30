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
from dims.sampling.draws import Draws
from dims.sampling.draws.joined import join
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
        if not self.others:
            return self._from(self.start, self.precision, job, report)
        starts = [(self.start, self.precision), *self.others]
        parts: dict[tuple[int, ...], Draws] = {}
        for number, (start, precision) in enumerate(starts):
            rows = tuple(row for row in job.rows if row % len(starts) == number)
            if rows:  # the state of a part is not that of a chunk, so none is kept
                part = replace(job, rows=rows, checkpoint=None)
                tell = None if report is None else _in_whole(report, len(job.rows), parts)
                parts[rows] = self._from(start, precision, part, tell)
        order = [row for rows in parts for row in rows]
        made = join(parts.values()).select([order.index(row) for row in job.rows])
        return replace(made, map_parameters=self.start.position)

    def _from(
        self,
        start: Start,
        precision: Precision,
        job: Job,
        report: Callable[[Progress], None] | None,
    ) -> Draws:
        """The draws of a job that all start at one place."""
        sampler = self.sampler.finer() if job.finer else self.sampler
        with with_threads(self.threads):
            noise = torch.cat(
                [
                    perturbations(precision, last - first, self.seed, first)
                    for first, last in _stretches(job.rows)
                ]
            )
            start = replace(start, checkpoint=job.checkpoint, seed=self.seed, numbers=job.rows)
            try:
                return sampler.sample(start, noise, self.seed, report)
            except KeyboardInterrupt:
                if job.checkpoint is not None:
                    job.checkpoint.keep()
                raise


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


def _in_whole(
    report: Callable[[Progress], None], rows: int, before: Mapping[tuple[int, ...], Draws]
) -> Callable[[Progress], None]:
    """Tells the progress of a part as that of so many rows; those that wait are at time 0."""

    def tell(now: Progress) -> None:
        done = now.done + sum(len(part) for part in before)
        share = (now.rows - now.done) / max(1, rows - done)
        report(now._replace(done=done, rows=rows, mean_time=now.mean_time * share))

    return tell


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
