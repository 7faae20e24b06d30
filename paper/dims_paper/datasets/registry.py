"""The data files: where each lies under a data folder, its size, checksum and public homes.

Paths, sizes and SHA-256 sums are facts carried in `files.csv` beside this module, titles, licences
and homes in `sources.csv`. A home is a public address that serves exactly these bytes, with the
commit pinned where it has one; files that were converted on the way have none.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from typing import Final


@dataclass(frozen=True)
class DataFile:
    """One file: its path below a data folder (with `/`), size in bytes, checksum and homes."""

    path: str
    size: int
    sha256: str
    homes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """A named set of files that are fetched and checked together."""

    name: str
    title: str
    licence: str
    files: tuple[DataFile, ...]


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="ascii")
    return list(csv.DictReader(text.splitlines()))


def _read_registry() -> dict[str, Dataset]:
    """Sources with their files; a home is a prefix to which a file's last name is appended."""
    rows = _rows("files.csv")
    datasets = {}
    for source in _rows("sources.csv"):
        files = tuple(
            DataFile(
                path=row["path"],
                size=int(row["size"]),
                sha256=row["sha256"],
                homes=tuple(h + row["path"].rpartition("/")[2] for h in source["homes"].split()),
            )
            for row in rows
            if row["dataset"] == source["dataset"]
        )
        name = source["dataset"]
        datasets[name] = Dataset(name, source["title"], source["licence"], files)
    return datasets


DATASETS: Final[dict[str, Dataset]] = _read_registry()


def list_datasets() -> tuple[Dataset, ...]:
    """Every known data set, in the order of the documentation."""
    return tuple(DATASETS.values())


def dataset(name: str) -> Dataset:
    """The data set of that name, or a ValueError that lists the names there are."""
    if name not in DATASETS:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(DATASETS)}")
    return DATASETS[name]


def owner(path: str) -> tuple[Dataset, DataFile]:
    """The data set and the file that a relative path belongs to."""
    for candidate in DATASETS.values():
        for file in candidate.files:
            if file.path == path:
                return candidate, file
    raise ValueError(f"no data set has a file {path!r}; see `dims data list`")
