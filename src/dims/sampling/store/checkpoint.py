"""A chunk that is half done, in a file: long trajectories do not start anew."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from dims.errors import DrawsFileError, SnapshotError, StoreWarning
from dims.mechanics.interrupts import held
from dims.sampling.draws.storage import read, write
from dims.sampling.store.folder import check_file, read_small
from dims.sampling.store.manifest import LARGEST_MANIFEST, MANIFEST, digest_of

__all__ = ["FileCheckpoint"]

EVERY = 60.0  # seconds
LARGEST_SHARE = 0.02  # the part of the time that writing may take


@dataclass
class FileCheckpoint:
    """The state of one batch of one run; a file of any other is refused.

    It travels with its job. A worker that does not see the store does without.
    """

    path: Path
    run: str  # the digest of its manifest
    rows: tuple[int, ...]
    largest: int  # bytes
    every: float = field(default_factory=lambda: EVERY)
    last: float = field(default_factory=time.monotonic)
    here: bool = True
    latest: Callable[[], dict[str, Tensor]] | None = None

    def load(self) -> dict[str, Tensor] | None:
        self.last = time.monotonic()
        self.here = self._sees_the_store()
        if not self.here or not (self.path.exists() or self.path.is_symlink()):
            return None
        try:
            check_file(self.path, self.largest)
            header, tensors = read(self.path)
            if header != self._header():
                raise DrawsFileError("of other rows or of another run")
        except (DrawsFileError, OSError) as error:
            self._warn(str(error))
            return None
        return tensors

    def offer(self, pack: Callable[[], dict[str, Tensor]]) -> None:
        """Written now and then, and by `keep`."""
        self.latest = pack
        if time.monotonic() - self.last >= self.every:
            self._save()

    def keep(self) -> None:
        """Write what was offered last: the run is about to leave."""
        with held():
            self._save()

    def _save(self) -> None:
        if not self.here or self.latest is None:
            return
        began = time.monotonic()
        try:
            write(self.path, self.latest(), self._header(), overwrite=True)
        except OSError as error:  # the chunk itself may still fit
            self._warn(f"could not be written ({error})", "the run goes on without")
            self.here = False
        self.last = time.monotonic()
        self.every = max(self.every, (self.last - began) / LARGEST_SHARE)

    def refuse(self, error: SnapshotError) -> None:
        self._warn(str(error))

    def _header(self) -> str:
        return json.dumps({"run": self.run, "rows": self.rows})

    def _sees_the_store(self) -> bool:
        """A worker elsewhere may see no such folder, or one that belongs to another run."""
        try:
            content = read_small(self.path.with_name(MANIFEST), LARGEST_MANIFEST)
            return content is not None and digest_of(json.loads(content)) == self.run
        except (OSError, ValueError, RecursionError):
            return False

    def _warn(self, what: str, then: str = "the chunk starts anew") -> None:
        warnings.warn(f"{self.path}: {what}; {then}", StoreWarning, stacklevel=2)
