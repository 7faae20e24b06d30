"""Fetch data files from their public homes into the user's cache.

A download goes to a temporary file, never grows past the known size, is compared with the
known SHA-256 sum and only then renamed into place, so a file that is there is a whole one.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from dims_paper.datasets.locate import cache_directory, how_to_get, locate, not_found, sha256_of
from dims_paper.datasets.registry import DataFile, dataset

_CHUNK = 1 << 20


class DownloadError(OSError):
    """No home delivered the file; the message gives the reason for each of them."""


def fetch(name: str, *, timeout: float = 30.0) -> tuple[Path, ...]:
    """Make every file of a data set present and verified; return where they lie.

    Good copies, in `DIMS_DATA` or in the cache, are kept; others are downloaded to the cache.
    Raises DataNotFoundError for files without a public home, DownloadError if all homes fail and
    ValueError if a damaged copy is in the way.
    """
    source = dataset(name)
    cache = cache_directory()
    kept: dict[str, Path] = {}
    for file in source.files:
        location = locate(file)
        # Complaints come before anything is downloaded: half a data set helps nobody.
        if location is None:
            if not file.homes:
                raise not_found(name, file)
        elif sha256_of(location) == file.sha256:
            kept[file.path] = location
        elif location != cache / file.path or not file.homes:
            # A download to the cache would not help: this copy is found first.
            raise ValueError(f"{location} is damaged; delete it, then {how_to_get(name, file)}")
    return tuple(
        kept[file.path] if file.path in kept else _download(file, cache / file.path, timeout)
        for file in source.files
    )


def _download(file: DataFile, target: Path, timeout: float) -> Path:
    reasons = []
    for home in file.homes:
        try:
            _save(home, file, target, timeout)
        except HTTPError as error:
            error.close()
            reasons.append(f"{home}: HTTP {error.code} {error.reason}")
        except (OSError, HTTPException, ValueError) as error:
            # One line: some messages of the network layers span several.
            reasons.append(f"{home}: {' '.join(str(error).split()) or type(error).__name__}")
        else:
            return target
    raise DownloadError(f"cannot fetch {file.path} ({'; '.join(reasons)})")


def _save(home: str, file: DataFile, target: Path, timeout: float) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    partial = Path(name)
    request = Request(home, headers={"User-Agent": "dims"})
    try:
        digest, size = hashlib.sha256(), 0
        with os.fdopen(descriptor, "wb") as sink, urlopen(request, timeout=timeout) as response:
            # One byte past the known size is enough to know that it is another file.
            while size <= file.size and (chunk := response.read(min(_CHUNK, file.size + 1 - size))):
                digest.update(chunk)
                size += sink.write(chunk)
        if size != file.size:
            received = "more" if size > file.size else str(size)
            raise ValueError(f"received {received} bytes instead of {file.size}")
        if digest.hexdigest() != file.sha256:
            raise ValueError(f"SHA-256 is {digest.hexdigest()} instead of {file.sha256}")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
