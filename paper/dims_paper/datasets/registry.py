"""The data files: where each lies under a data folder, its size, checksum and public homes.

Paths, sizes and SHA-256 sums are facts carried in `files.csv` beside this module. A home is a
public address that serves the very same bytes; several files have none, because they were
converted or given a header on the way, and then no address is better than a false one.
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


# Commits are pinned so that an address keeps serving the bytes that the checksum names.
_BNN_PREDICTIONS = (
    "https://raw.githubusercontent.com/AlexImmer/BNN-predictions/"
    "fe80c2c4c53081a418a630f2fa7d49e8b4c1b543/data/"
)
_RIEMANNIAN_LAPLACE = (
    "https://raw.githubusercontent.com/federicobergamin/riemannian-laplace-approximation/"
    "ef5dba89fcf190a8ac51982c555947f00733ca08/data/"
)
_EMNIST = (
    "https://media.githubusercontent.com/media/aurelienduarte/emnist/"
    "845f29ee8fb6be30e60b115f638f0eab08bfe469/gzip/"
)

# name, title, licence as stated by the source, prefixes to which a file's last name is appended
_SOURCES: Final[tuple[tuple[str, str, str, tuple[str, ...]], ...]] = (
    (
        "snelson",
        "Snelson 1-D regression, 200 training points and 301 test inputs",
        "none stated",
        (_RIEMANNIAN_LAPLACE + "snelson_data/",),
    ),
    (
        "banana",
        "Banana, 5300 points in 2-D, 2 classes",
        "none stated",
        (_RIEMANNIAN_LAPLACE + "banana/", _BNN_PREDICTIONS + "banana/"),
    ),
    ("vehicle", "Vehicle, 846 x 18, 4 classes", "UCI", (_BNN_PREDICTIONS + "vehicle/",)),
    ("glass", "Glass, 214 x 9, 6 classes", "UCI", (_BNN_PREDICTIONS + "glass/",)),
    ("ionosphere", "Ionosphere, 351 x 34, 2 classes", "UCI", (_BNN_PREDICTIONS + "ionosphere/",)),
    (
        "waveform",
        "Waveform, a sample of 1000 x 21, 3 classes",
        "UCI",
        (_BNN_PREDICTIONS + "waveform/",),
    ),
    (
        "australian",
        "Australian credit, 690 x 14 scaled to [-1, 1], 2 classes",
        "UCI",
        (_BNN_PREDICTIONS + "australian_presplit/",),
    ),
    (
        "breast_cancer",
        "Breast Cancer Wisconsin (original), 683 x 10 with the Id column, 2 classes",
        "UCI",
        (_BNN_PREDICTIONS + "breast_cancer_scale_presplit/",),
    ),
    ("vehicle_clean", "Vehicle, 846 x 18 unscaled, 4 classes", "UCI", ()),
    ("glass_clean", "Glass, 214 x 9 unscaled, 6 classes", "UCI", ()),
    ("ionosphere_clean", "Ionosphere, 351 x 34, 2 classes", "UCI", ()),
    ("waveform_clean", "Waveform, all 5000 x 21, 3 classes", "UCI", ()),
    ("australian_clean", "Australian credit, 690 x 14 unscaled, 2 classes", "UCI", ()),
    ("breast_cancer_clean", "Breast Cancer Wisconsin (diagnostic), 569 x 30, 2 classes", "UCI", ()),
    (
        "breast_cancer_original",
        "Breast Cancer Wisconsin (original), 699 x 9 with 16 empty fields, 2 classes",
        "UCI",
        (),
    ),
    (
        "mnist",
        "MNIST digits, 60000 + 10000 images",
        "none stated",
        ("https://ossci-datasets.s3.amazonaws.com/mnist/",),
    ),
    (
        "fashion_mnist",
        "Fashion-MNIST, 60000 + 10000 images",
        "MIT",
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
    ),
    (
        "kmnist",
        "Kuzushiji-MNIST, the 10000 test images",
        "CC BY-SA 4.0",
        (
            "https://codh.rois.ac.jp/kmnist/dataset/kmnist/",
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        ),
    ),
    (
        "emnist_mnist",
        'EMNIST split "mnist" (digits), the 10000 test images',
        "none stated (NIST)",
        (_EMNIST,),
    ),
    (
        "emnist_letters",
        'EMNIST split "letters", the first 10000 of 20800 test images (A to L and half of M)',
        "none stated (NIST)",
        (),
    ),
)


def _read_registry() -> dict[str, Dataset]:
    text = resources.files(__package__).joinpath("files.csv").read_text(encoding="ascii")
    rows = list(csv.DictReader(text.splitlines()))
    datasets = {}
    for name, title, licence, prefixes in _SOURCES:
        files = tuple(
            DataFile(
                path=row["path"],
                size=int(row["size"]),
                sha256=row["sha256"],
                homes=tuple(prefix + row["path"].rpartition("/")[2] for prefix in prefixes),
            )
            for row in rows
            if row["dataset"] == name
        )
        datasets[name] = Dataset(name=name, title=title, licence=licence, files=files)
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
