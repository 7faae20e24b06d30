"""What a store needs of the operating system, where POSIX and Windows differ."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path
from types import ModuleType

from dims.errors import StoreWarning

__all__ = ["open_plainly", "try_lock"]

fcntl: ModuleType | None
msvcrt: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
try:
    import msvcrt
except ImportError:  # everything else
    msvcrt = None

NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
# A pipe is opened at once, and bytes are bytes.
AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_plainly(path: Path, flags: int) -> int:
    """A descriptor of a file, not through a link and without waiting for a pipe.

    Raises:
        OSError: With errno ELOOP for a link; as `os.open` for everything else.
    """
    if not NO_LINKS and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags | NO_LINKS | AT_ONCE, 0o644)


def try_lock(descriptor: int) -> bool:
    """Lock a file for this process until its descriptor is closed; False if another has it."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            warnings.warn(
                "store: this system has no file locks; let one process at a time write to it",
                StoreWarning,
                stacklevel=5,
            )
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            raise
        return False
    return True
