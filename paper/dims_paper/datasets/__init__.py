"""Data: loaders with checksums, and the numbers of the paper.

Files are found in the folder that `DIMS_DATA` names, then in the user's cache; `fetch` downloads
those that have a public home.
"""

from __future__ import annotations

from dims_paper.datasets.banana import load_banana
from dims_paper.datasets.download import DownloadError, fetch
from dims_paper.datasets.idx import load_idx
from dims_paper.datasets.images import IMAGE_NAMES, Images, load_images
from dims_paper.datasets.locate import (
    DataNotFoundError,
    FileState,
    FileStatus,
    available,
    cache_directory,
    check,
    data_directories,
)
from dims_paper.datasets.registry import DataFile, Dataset, list_datasets
from dims_paper.datasets.snelson import Snelson, load_snelson
from dims_paper.datasets.splits import Split
from dims_paper.datasets.uci import UCI_NAMES, load_uci

__all__ = [
    "IMAGE_NAMES",
    "UCI_NAMES",
    "DataFile",
    "DataNotFoundError",
    "Dataset",
    "DownloadError",
    "FileState",
    "FileStatus",
    "Images",
    "Snelson",
    "Split",
    "available",
    "cache_directory",
    "check",
    "data_directories",
    "fetch",
    "list_datasets",
    "load_banana",
    "load_idx",
    "load_images",
    "load_snelson",
    "load_uci",
]
