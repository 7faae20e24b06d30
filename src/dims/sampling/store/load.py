"""`load`: draws from a file, or from the folder of a run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from dims.errors import DrawsFileError, StoreError, StoreWarning
from dims.sampling.draws import Draws
from dims.sampling.draws.file import load as load_file
from dims.sampling.draws.header import parse_header
from dims.sampling.draws.joined import join
from dims.sampling.draws.storage import read
from dims.sampling.engine import Job
from dims.sampling.store.chunks import chunk_path, jobs_of, mend, unmarked
from dims.sampling.store.folder import check_file
from dims.sampling.store.manifest import MANIFEST, digest_of, read_manifest, stage_ends

__all__ = ["COMPUTE_AGAIN", "load"]

LARGEST = 2**63  # bytes: the file is the reader's own choice
COMPUTE_AGAIN = (
    "run the `dims sample` command of this run, or posterior.sample(store=...), again: it computes "
    "what is missing or damaged and keeps the rest"
)


def load(
    path: str | os.PathLike[str],
    model: nn.Module,
    data: Any = None,
    *,
    memory_budget: int | None = None,
) -> Draws:
    """Read draws that `Draws.save` wrote, or those in the folder of `sample(store=...)`.

    Args:
        path: The file or the folder. Of a run that is not finished, the finished chunks are read,
            with a warning; failed draws that were tried again are taken from there.
        model: The network they were made with. Its weights need not be trained: θ* is in the
            file. It is copied, not modified.
        data: The training data. With it the draws get their loss surface back; without, they
            predict.
        memory_budget: Bytes that the network may use at once; None takes the default.

    Returns:
        The draws as they were saved.

    Raises:
        DrawsFileError: A file is damaged, is not a file of draws, or belongs to another model or
            other data.
        StoreError: The folder does not hold a run, or nothing of it is finished.

    Example:
        >>> draws = dims.load("run.safetensors", model)
        >>> draws = dims.load("runs/first", model)
    """
    place = Path(path)
    if not place.is_dir():
        return load_file(path, model, data, memory_budget=memory_budget)
    if not (place / MANIFEST).exists():
        raise StoreError(f"path: {place} does not hold a run; give the folder of sample(store=...)")
    manifest = read_manifest(place / MANIFEST)
    digest, jobs = digest_of(manifest), _finished_jobs(place, manifest)
    chunks = [_read(place, job, digest, model) for job in jobs]
    made = join(chunks)
    if data is not None or memory_budget is not None:
        first = load_file(chunk_path(place, jobs[0]), model, data, memory_budget=memory_budget)
        made = replace(made, surface=first.surface)
    return made


def _finished_jobs(place: Path, manifest: dict[str, Any]) -> list[Job]:
    """The chunks that are there; those that are not are named in a warning."""
    ends, size = stage_ends(manifest, place), manifest.get("chunk_size")
    if type(size) is not int or not 1 <= size <= ends[-1] + 10**7:
        raise StoreError(f"{place}: its manifest has no size of chunks")
    names = {path.name for path in place.glob("chunk_*.safetensors")}
    found: list[Job] = []
    missing: list[Job] = []
    for job in jobs_of(ends, size):
        if len(found) == len(names):
            break
        known = chunk_path(place, job).name in names
        (found if known else missing).append(job)
    if not found:
        raise StoreError(f"{place}: no chunk is finished yet; {COMPUTE_AGAIN}")
    rows = sum(len(job.rows) for job in found)
    if rows < ends[-1]:
        gaps = f" (not {', '.join(map(str, missing[:5]))})" if missing else ""
        warnings.warn(
            f"{place}: {rows} of {ends[-1]} draws are there{gaps}; for all of them {COMPUTE_AGAIN}",
            StoreWarning,
            stacklevel=4,
        )
    return found


def _read(place: Path, job: Job, digest: str, model: nn.Module) -> Draws:
    """One chunk, with the draws that were tried again where that helped."""
    draws, path = _read_file(place, job, digest, model), chunk_path(place, replace(job, finer=True))
    if not path.exists():
        return draws
    tried = _rows_in(path)
    second = replace(job, rows=tuple(row for row in job.rows if row in tried), finer=True)
    return mend(draws, job, _read_file(place, second, digest, model), second)


def _read_file(place: Path, job: Job, digest: str, model: nn.Module) -> Draws:
    path = chunk_path(place, job)
    _rows_in(path)
    draws = load_file(path, model)  # it fails where the model is another
    with _advising():
        return unmarked(draws, path, job, digest)


def _rows_in(path: Path) -> list[Any]:
    """The rows that a file says it holds; a damaged file is named, with what to do."""
    with _advising():
        check_file(path, LARGEST)
        try:
            rows = parse_header(read(path)[0]).settings.get("store_rows")
        except DrawsFileError as error:
            raise DrawsFileError(f"{path}: {error}") from error
    return rows if isinstance(rows, list) else []


@contextmanager
def _advising() -> Iterator[None]:
    try:
        yield
    except DrawsFileError as error:
        raise DrawsFileError(f"{error}; {COMPUTE_AGAIN}") from error
