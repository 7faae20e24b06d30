"""Draws of a run: from its folder where they are, else computed and put there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from dims.errors import DrawsFileError, StoreError, StoreWarning
from dims.mechanics.interrupts import held, stoppable
from dims.mechanics.metric.choice import ROW_BYTES
from dims.sampling.draws import Draws, load
from dims.sampling.draws.joined import join
from dims.sampling.engine import Job
from dims.sampling.engine.work import with_threads
from dims.sampling.samplers import Sampler
from dims.sampling.store.checkpoint import FileCheckpoint
from dims.sampling.store.chunks import (
    chunk_path,
    failed_rows,
    jobs_of,
    mark_of,
    mend,
    unmarked,
    without_times,
)
from dims.sampling.store.folder import check_file, locked, make_folder
from dims.sampling.store.manifest import MANIFEST, agree, digest_of, stage_ends
from dims.surface.loss import LossSurface

__all__ = ["sample_in_store"]

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
    wanted = {"chunk_size": chunk_size, **run}
    with stoppable(), locked(place) as writable, _nothing_left_of_a_refused_run(place):
        manifest = agree(place, wanted, draws, writable, sampler.current_settings)
        if writable:
            _sweep(place)
        store = _Store(place, surface, sampler, digest_of(manifest), manifest["threads"], writable)
        jobs = jobs_of(stage_ends(manifest, place), chunk_size)
        chunks = store.complete([*takewhile(lambda job: job.rows[0] < draws, jobs)], compute)
        if retry_failed:
            again = {
                job: Job(job.number, tuple(job.rows[i] for i in failed_rows(chunk)), finer=True)
                for job, chunk in chunks.items()
                if failed_rows(chunk)
            }
            retried = store.complete(list(again.values()), compute)
            for job, second in again.items():
                chunks[job] = mend(chunks[job], job, retried[second], second)
    made = join(chunks.values())
    return made if len(made) == draws else made.select(slice(draws))


@contextmanager
def _nothing_left_of_a_refused_run(place: Path) -> Iterator[None]:
    """A run that fails before anything is computed leaves no manifest to contradict the next."""
    new = not (place / MANIFEST).exists()
    try:
        yield
    except Exception:
        if new and not any(place.glob("*.safetensors")):
            (place / MANIFEST).unlink(missing_ok=True)
        raise


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
        if self.writable:  # killed after a chunk was kept, and before its state was removed
            for job in found:
                self._checkpoint(job).path.unlink(missing_ok=True)
        if missing and not self.writable:
            raise StoreError(
                f"{self.place}: cannot be written to, with {missing[0]} not there; "
                "make it writable, or give another folder"
            )
        done = sum(len(job.rows) for job in found)
        missing = [replace(job, checkpoint=self._checkpoint(job)) for job in missing]
        for job, draws in compute(missing, self.threads, done) if missing else ():
            with held():
                self._keep(job, draws)
            found[job] = draws
        return {job: found[job] for job in jobs}

    def _checkpoint(self, job: Job) -> FileCheckpoint:
        path = chunk_path(self.place, job)
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

    def _keep(self, job: Job, draws: Draws) -> None:
        path = chunk_path(self.place, job)
        settings = {**draws.settings, **mark_of(job, self.digest)}
        marked = replace(without_times(draws), settings=settings)
        try:
            with with_threads(self.threads):  # θ* is measured again, for the header
                marked.save(path, overwrite=True)
        except OSError as error:
            said = (
                f"{path}: {job} could not be kept ({error.strerror or error}); the chunks before "
                "are safe: make room or make it writable, then make the same call again"
            )
            raise OSError(*(() if error.errno is None else (error.errno,)), said) from error
        self._checkpoint(job).path.unlink(missing_ok=True)

    def _stored(self, job: Job) -> Draws | None:
        """The draws of a file; None, with a warning, where they are not what they must be."""
        path = chunk_path(self.place, job)
        if not path.exists() and not path.is_symlink():
            return None
        try:
            check_file(path, self._bytes(job) + HEADROOM)
            draws = unmarked(load(path, self.surface.module), path, job, self.digest)
        except (DrawsFileError, OSError) as error:
            warnings.warn(f"{error}: computed again", StoreWarning, stacklevel=5)
            return None
        settings = self.sampler.current_settings(draws.settings)
        return replace(draws, surface=self.surface, settings=settings)


def _sweep(place: Path) -> None:
    """Remove what a process left that was killed while it wrote."""
    for name in ("chunk", "retry", "partial", "manifest", "findings", "predictions"):
        for leftover in place.glob(f".{name}*.part"):
            leftover.unlink(missing_ok=True)
