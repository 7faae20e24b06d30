"""A folder that may come from anyone: nothing is read or written through links or odd files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dims.errors import DrawsFileError, StoreError
from dims.sampling.store.platforms import open_plainly, try_lock

__all__ = ["check_file", "locked", "make_folder", "read_small"]

READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def make_folder(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreError(f"store: {place} is a file, not a folder; give another name") from error


@contextmanager
def locked(place: Path) -> Iterator[bool]:
    """The store is ours alone inside; the system frees the lock of a process that dies.

    False where the folder cannot be written: what is there can still be read.
    """
    path = place / "lock"
    try:
        # No truncation and no links: the name may lead to a file that is not ours.
        descriptor = open_plainly(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno in READ_ONLY:
            yield False
            return
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise StoreError(f"{path}: not a plain file; give another folder") from error
        raise
    try:
        if not try_lock(descriptor):
            raise StoreError(
                f"{place}: another process is writing to it; wait for it, or give another folder"
            )
        yield True
    finally:
        os.close(descriptor)


def check_file(path: Path, largest: int) -> None:
    """Before a byte is read: a link may lead out of the store, a pipe may never end, and a file
    far larger than its draws would fill the memory."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise DrawsFileError(f"{path}: a link or not a file")
    if path.stat().st_size > largest:
        raise DrawsFileError(f"{path}: larger than its draws can be")


def read_small(path: Path, most: int) -> bytes | None:
    """The content of a plain file of at most so many bytes; None where it is something else."""
    try:
        descriptor = open_plainly(path, os.O_RDONLY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        content = file.read(most + 1)
    return content if len(content) <= most else None
