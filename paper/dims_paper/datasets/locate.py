"""Find data files: first in the folder that `DIMS_DATA` names, then in the user's cache.

A load checks presence and size, which is cheap and catches truncated files; `check` computes
the SHA-256 sums.
"""

from __future__ import annotations

import enum
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from dims_paper.datasets.registry import DATASETS, DataFile, dataset, list_datasets, owner


class DataNotFoundError(FileNotFoundError):
    """A data file is on none of the places where it is looked for; the message says what to do."""


class FileState(enum.Enum):
    """What `check` found out about one file."""

    OK = "ok"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class FileStatus:
    """The state of one file of a data set, and where it lies if it is there."""

    dataset: str
    file: DataFile
    state: FileState
    location: Path | None


def cache_directory() -> Path:
    """The user's own data folder: `$XDG_CACHE_HOME/dims`, or `~/.cache/dims`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification tells programs to ignore a relative path.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "dims"


def data_directories() -> tuple[Path, ...]:
    """The folders to search, in order; `DIMS_DATA` is left out when unset or empty."""
    named = os.environ.get("DIMS_DATA", "")
    return (*((Path(named).expanduser(),) if named else ()), cache_directory())


def locate(file: DataFile) -> Path | None:
    """The first copy of a file, whatever its content, or None."""
    for directory in data_directories():
        candidate = directory / file.path
        if candidate.is_file():
            return candidate
    return None


def find(path: str) -> Path:
    """The full path of a registered file (`"banana/banana.csv"`), of the right size.

    Raises DataNotFoundError if it is nowhere and ValueError if it has the wrong size.
    """
    source, file = owner(path)
    location = locate(file)
    if location is None:
        raise not_found(source.name, file)
    size = location.stat().st_size
    if size != file.size:
        raise ValueError(
            f"{location} has {size} bytes instead of {file.size}, so it is truncated or another "
            f"file; delete it, then {how_to_get(source.name, file)}"
        )
    return location


def not_found(name: str, file: DataFile) -> DataNotFoundError:
    """The error for a missing file, in one line."""
    named = os.environ.get("DIMS_DATA", "")
    places = f"DIMS_DATA ({named or 'not set'}) or {cache_directory()}"
    return DataNotFoundError(f"{file.path} is not in {places}; {how_to_get(name, file)}")


def how_to_get(name: str, file: DataFile) -> str:
    """Advice for a file that is missing or damaged."""
    if file.homes:
        return f"run `dims data fetch {name}` or set DIMS_DATA to a folder that holds it"
    return "set DIMS_DATA to a folder that holds it (no public address serves the same bytes)"


def sha256_of(path: Path) -> str:
    """The SHA-256 sum of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check(name: str | None = None) -> tuple[FileStatus, ...]:
    """Verify the checksum of every file of one data set, or of all."""
    sources = list_datasets() if name is None else (dataset(name),)
    statuses = []
    for source in sources:
        for file in source.files:
            location = locate(file)
            if location is None:
                state = FileState.MISSING
            else:
                state = FileState.OK if sha256_of(location) == file.sha256 else FileState.DAMAGED
            statuses.append(FileStatus(source.name, file, state, location))
    return tuple(statuses)


def available() -> tuple[str, ...]:
    """Names of the data sets whose files are all present and of the right size."""

    def present(file: DataFile) -> bool:
        location = locate(file)
        return location is not None and location.stat().st_size == file.size

    return tuple(name for name, source in DATASETS.items() if all(map(present, source.files)))
