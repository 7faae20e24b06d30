"""Which node computes which chunk of a run on a cluster, written down while it happens.

The work function of the engine is wrapped at run time. The workers append to one file, which they
all see because the nodes are on one machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dims.sampling.engine import cluster


@dataclass(frozen=True)
class Entry:
    """A chunk that began or ended, and the network namespace that its worker is in."""

    event: str
    chunk: int
    namespace: int
    worker: int


def keep(diary: Path) -> None:
    """In the program that samples: its chunks are written down from now on."""
    cluster._compute = noted(str(diary))


def noted(diary: str) -> Callable[..., dict[str, Any]]:
    def compute(work: Any, job: Any, board: Any) -> dict[str, Any]:
        """In a worker, where the engine's own function is in its place."""
        write(diary, "began", job.number)
        parts = cluster._compute(work, job, board)
        write(diary, "ended", job.number)
        return parts

    return compute


def write(diary: str, event: str, chunk: int) -> None:
    namespace = os.stat("/proc/self/ns/net").st_ino
    line = json.dumps([event, chunk, namespace, os.getpid()]) + "\n"
    file = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())  # one write to the end of a file is not mixed with another
    os.close(file)


def read(diary: Path) -> list[Entry]:
    lines = diary.read_text().splitlines() if diary.exists() else []
    return [Entry(*json.loads(line)) for line in lines]


def unfinished(entries: list[Entry], namespace: int) -> dict[int, int]:
    """The chunks that workers of a node have begun and not ended, by the number of the worker."""
    open_: dict[int, int] = {}
    for entry in entries:
        if entry.namespace == namespace and entry.event == "began":
            open_[entry.worker] = entry.chunk
        elif entry.namespace == namespace:
            open_.pop(entry.worker, None)
    return open_


def computed_by(entries: list[Entry]) -> dict[int, int]:
    """The namespace that each chunk was computed in: the last, where it was more than one."""
    return {entry.chunk: entry.namespace for entry in entries if entry.event == "ended"}
