"""The chunks of a run: the rows of each, the mark in its file, and how they are put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dims.errors import DrawsFileError
from dims.sampling.draws import Draws
from dims.sampling.draws.joined import join
from dims.sampling.engine import Job

__all__ = [
    "chunk_path",
    "failed_rows",
    "jobs_of",
    "mark_of",
    "mend",
    "unmarked",
    "without_times",
]


def jobs_of(ends: Iterable[int], chunk_size: int) -> Iterator[Job]:
    """The chunks of a run whose stages end at these draws; each stage begins a new chunk."""
    number, first = 0, 0
    for end in ends:
        for begin in range(first, end, chunk_size):
            yield Job(number, tuple(range(begin, min(begin + chunk_size, end))))
            number += 1
        first = end


def chunk_path(place: Path, job: Job) -> Path:
    """The file of a job."""
    kind = "retry" if job.finer else "chunk"
    return place / f"{kind}_{job.number:05d}.safetensors"


def mark_of(job: Job, digest: str) -> dict[str, Any]:
    """Settings in the file of a job that say which rows of which run it holds."""
    return {"store_rows": list(job.rows), "store_run": digest}


def without_times(draws: Draws) -> Draws:
    """The same without what was measured in seconds: files of a run must not depend on it."""
    equivalents = draws.gradient_equivalents
    timed = equivalents != draws.evaluations
    return replace(draws, gradient_equivalents=equivalents.where(~timed, torch.nan))


def unmarked(draws: Draws, path: Path, job: Job, digest: str) -> Draws:
    """Draws of a file without the mark, which must be that of the job."""
    mark = mark_of(job, digest)
    if any(draws.settings.get(key) != value for key, value in mark.items()):
        raise DrawsFileError(f"{path}: of other rows or of another run")
    if len(draws) != len(job.rows):
        raise DrawsFileError(f"{path}: {len(draws)} draws for {len(job.rows)} rows")
    settings = {key: value for key, value in draws.settings.items() if key not in mark}
    return replace(draws, settings=settings)


def failed_rows(draws: Draws) -> list[int]:
    """Draws whose trajectory did not end as asked, or that are not finite."""
    finite = draws.parameters.isfinite().all(dim=1).tolist()
    ended = [status is None or status.ok for status in draws.status]
    return [i for i, fine in enumerate(zip(finite, ended, strict=True)) if not all(fine)]


def mend(draws: Draws, job: Job, again: Draws, second: Job) -> Draws:
    """The retried draws in the place of those that failed, but for those that failed again."""
    failed = set(failed_rows(again))
    pool = join([draws, again])
    order = list(range(len(draws)))
    for place, row in enumerate(second.rows):
        if place not in failed:
            order[job.rows.index(row)] = len(draws) + place
    return pool.select(order)
