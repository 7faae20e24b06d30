"""Draws of a run: from its folder where they are, else computed and put there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dims.errors import DrawsFileError, StoreError, StoreWarning
from dims.mechanics.metric.choice import ROW_BYTES
from dims.sampling.draws import Draws, load
from dims.sampling.draws.fields import ROW_LISTS, ROW_TENSORS, joined_weights
from dims.sampling.engine import Job
from dims.sampling.samplers import Sampler
from dims.sampling.store.checkpoint import FileCheckpoint
from dims.sampling.store.folder import check_file, locked, make_folder
from dims.sampling.store.manifest import agree, digest_of
from dims.surface.loss import LossSurface

__all__ = ["failed_rows", "jobs_of", "join", "sample_in_store"]

VERSION = 1
HEADROOM = 2**26  # bytes of a chunk beside its parameters: its header and diagnostics

# Computes jobs with so many threads each, of which so many rows are already done.
Compute = Callable[[Sequence[Job], int, int], Iterator[tuple[Job, Draws]]]


def sample_in_store(
    folder: str | os.PathLike[str],
    run: dict[str, Any],
    draws: int,
    chunk_size: int,
    surface: LossSurface,
    sampler: Sampler,
    compute: Compute,
    *,
    retry_failed: bool = False,
) -> Draws:
    """Draws 0 … draws − 1, from the folder where they are, else by `compute`.

    `run` says what they depend on, in JSON's types; it must be the same at every call, but for
    `threads`, which stays what it was at the first. With `retry_failed`, draws that failed are
    tried once more, with a finer tolerance, and replaced where that helps.
    """
    place = Path(folder)
    make_folder(place)
    wanted = {"version": VERSION, "count": draws, "chunk_size": chunk_size, **run}
    with locked(place) as writable:
        manifest = agree(place, wanted, writable, sampler.current_settings)
        if writable:
            _sweep(place)
        store = _Store(place, surface, sampler, digest_of(manifest), manifest["threads"], writable)
        chunks = store.complete(list(jobs_of(draws, chunk_size)), compute)
        if retry_failed:
            again = {
                job: Job(job.number, tuple(job.rows[i] for i in failed_rows(chunk)), finer=True)
                for job, chunk in chunks.items()
                if failed_rows(chunk)
            }
            retried = store.complete(list(again.values()), compute)
            for job, second in again.items():
                chunks[job] = _mend(chunks[job], job, retried[second], second)
    return join(chunks.values())


def jobs_of(draws: int, chunk_size: int) -> Iterator[Job]:
    """The chunks of a run."""
    for number, first in enumerate(range(0, draws, chunk_size)):
        yield Job(number, tuple(range(first, min(first + chunk_size, draws))))


def failed_rows(draws: Draws) -> list[int]:
    """Draws whose trajectory did not end as asked, or that are not finite."""
    finite = draws.parameters.isfinite().all(dim=1).tolist()
    ended = [status is None or status.ok for status in draws.status]
    return [i for i, fine in enumerate(zip(finite, ended, strict=True)) if not all(fine)]


@dataclass(frozen=True)
class _Store:
    """The chunks of one run in one folder."""

    place: Path
    surface: LossSurface
    sampler: Sampler
    digest: str
    threads: int
    writable: bool

    def complete(self, jobs: Sequence[Job], compute: Compute) -> dict[Job, Draws]:
        """All jobs, in order: those in the folder as they are there, the others computed."""
        found = {job: draws for job in jobs if (draws := self._stored(job)) is not None}
        missing = [job for job in jobs if job not in found]
        if missing and not self.writable:
            raise StoreError(
                f"{self.place}: cannot be written to, with {missing[0]} not there; "
                "make it writable, or give another folder"
            )
        done = sum(len(job.rows) for job in found)
        missing = [replace(job, checkpoint=self._checkpoint(job)) for job in missing]
        for job, draws in compute(missing, self.threads, done) if missing else ():
            self._keep(job, draws)
            found[job] = draws
        return {job: found[job] for job in jobs}

    def _path(self, job: Job) -> Path:
        kind = "retry" if job.finer else "chunk"
        return self.place / f"{kind}_{job.number:05d}.safetensors"

    def _checkpoint(self, job: Job) -> FileCheckpoint:
        path = self._path(job)
        name = path.name.replace("chunk", "partial").replace("retry", "partial_retry")
        # Dozens of vectors for each row, and the energy pages of a long trajectory.
        largest = 64 * self._bytes(job) + 2**30
        if getattr(self.sampler, "metric", "euclidean") != "euclidean":
            largest += ROW_BYTES * len(job.rows)
        return FileCheckpoint(path.with_name(name).absolute(), self.digest, job.rows, largest)

    def _bytes(self, job: Job) -> int:
        """Of the parameters of a job and of its saved times, θ* and the prior included."""
        vector = self.surface.vector
        each = 1 + len(getattr(self.sampler, "save_at", ()))
        return (each * len(job.rows) + 2) * vector.size * vector.dtype.itemsize

    def _mark(self, job: Job) -> dict[str, Any]:
        return {"store_rows": list(job.rows), "store_run": self.digest}

    def _keep(self, job: Job, draws: Draws) -> None:
        path = self._path(job)
        marked = replace(draws, settings={**draws.settings, **self._mark(job)})
        try:
            marked.save(path, overwrite=True)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{path}: {job} could not be kept ({error.strerror or error}); the chunks before "
                "are safe: make room or make it writable, then make the same call again",
            ) from error
        self._checkpoint(job).path.unlink(missing_ok=True)

    def _stored(self, job: Job) -> Draws | None:
        """The draws of a file; None, with a warning, where they are not what they must be."""
        path, mark = self._path(job), self._mark(job)
        if not path.exists() and not path.is_symlink():
            return None
        try:
            check_file(path, self._bytes(job) + HEADROOM)
            draws = load(path, self.surface.module)
            if any(draws.settings.get(key) != value for key, value in mark.items()):
                raise DrawsFileError(f"{path}: of other rows or of another run")
            if len(draws) != len(job.rows):
                raise DrawsFileError(f"{path}: {len(draws)} draws for {len(job.rows)} rows")
        except (DrawsFileError, OSError) as error:
            warnings.warn(f"{error}: computed again", StoreWarning, stacklevel=5)
            return None
        settings = {key: value for key, value in draws.settings.items() if key not in mark}
        settings = self.sampler.current_settings(settings)
        return replace(draws, surface=self.surface, settings=settings)


def _sweep(place: Path) -> None:
    """Remove what a process left that was killed while it wrote."""
    for name in ("chunk", "retry", "partial", "manifest"):
        for leftover in place.glob(f".{name}*.part"):
            leftover.unlink(missing_ok=True)


def _mend(draws: Draws, job: Job, again: Draws, second: Job) -> Draws:
    """The retried draws in the place of those that failed, but for those that failed again."""
    failed = set(failed_rows(again))
    pool = join([draws, again])
    order = list(range(len(draws)))
    for place, row in enumerate(second.rows):
        if place not in failed:
            order[job.rows.index(row)] = len(draws) + place
    return pool.select(order)


def join(chunks: Iterable[Draws]) -> Draws:
    """One after the other; what does not belong to rows is that of the first."""
    chunks = list(chunks)
    joined: dict[str, Any] = {
        name: torch.cat([getattr(chunk, name) for chunk in chunks]) for name in ROW_TENSORS
    }
    for name in ROW_LISTS:
        if getattr(chunks[0], name) is not None:
            joined[name] = [entry for chunk in chunks for entry in getattr(chunk, name)]
    return replace(chunks[0], weights=joined_weights(chunks), **joined)
