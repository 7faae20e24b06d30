"""One job after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from dims.sampling.draws import Draws
from dims.sampling.engine.work import Job, Name, Result, Work
from dims.sampling.progress import RunProgress

__all__ = ["InProcess"]


@dataclass(frozen=True)
class InProcess:
    """No settings: it uses what the process has."""

    @property
    def threads(self) -> int:
        return torch.get_num_threads()

    def run(
        self, work: Work, jobs: Sequence[Job], progress: RunProgress
    ) -> Iterator[tuple[Job, Draws]]:
        for job in jobs:
            draws = work.compute(job, partial(progress.update, job.rows))
            progress.finish(job.rows)
            yield job, draws

    def each(self, tasks: Mapping[Name, Callable[[], Result]]) -> Iterator[tuple[Name, Result]]:
        for name, task in tasks.items():
            yield name, task()
