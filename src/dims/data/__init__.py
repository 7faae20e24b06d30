"""Data: loaders with checksums, and the numbers of the paper.

Files are found in the folder that `DIMS_DATA` names, then in the user's cache; `fetch` downloads
those that have a public home.
"""

from __future__ import annotations

from dims.data.banana import load_banana
from dims.data.download import DownloadError, fetch
from dims.data.idx import load_idx
from dims.data.images import IMAGE_NAMES, Images, load_images
from dims.data.locate import (
    DataNotFoundError,
    FileState,
    FileStatus,
    available,
    cache_directory,
    check,
    data_directories,
)
from dims.data.registry import DataFile, Dataset, list_datasets
from dims.data.snelson import Snelson, load_snelson
from dims.data.splits import Split
from dims.data.uci import UCI_NAMES, load_uci

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
