"""Soak test: ten thousand small draws in a store, and the memory of the process.

    python benchmarks/soak.py

Writes results/benchmarks/soak.json. `soak_lenet.py` runs a larger network for an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch

import dims
from dims.mechanics.batch import Progress

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "benchmarks" / "soak.json"
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> float:
    """Resident memory of this process, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


class Watch(threading.Thread):
    """Records time, finished draws and memory once per second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.began = time.monotonic()
        self.done = 0
        self.over = threading.Event()
        self.rows: list[tuple[float, int, float]] = []

    def report(self, now: Progress) -> None:
        self.done = now.done

    def run(self) -> None:
        while not self.over.wait(1.0):
            self.rows.append((round(time.monotonic() - self.began, 1), self.done, resident()))


def problem() -> dims.Posterior:
    """A tiny network, so that ten thousand draws take a minute."""
    sys.path.insert(0, str(ROOT / "tests/sampling"))
    from test_store import make_posterior

    return make_posterior(refine=True)


def soak(draws: int, chunk_size: int) -> dict[str, object]:
    """Sample into a store while a thread watches the memory."""
    torch.set_num_threads(1)
    posterior, watch = problem(), Watch()
    with tempfile.TemporaryDirectory() as folder:
        watch.start()
        made = posterior.sample(
            draws, store=Path(folder) / "run", chunk_size=chunk_size, friction=1.0, max_time=1.0,
            progress=watch.report,
        )  # fmt: skip
        watch.over.set()
        watch.join()
        disk = sum(path.stat().st_size for path in Path(folder).rglob("*.safetensors"))
    held = sum(
        value.numel() * value.element_size()
        for value in vars(made).values()
        if isinstance(value, torch.Tensor)
    )
    return {
        "draws": len(made),
        "chunk_size": chunk_size,
        "failed": sum(status is not None and not status.ok for status in made.status),
        "evaluations": int(made.evaluations.sum()),
        "seconds": round(time.monotonic() - watch.began, 1),
        "MB_on_disk": round(disk / 1e6, 2),
        "MB_of_draws": round(held / 1e6, 2),
        "MB_at_tenth": at(watch, draws // 10),
        "MB_at_half": at(watch, draws // 2),
        "MB_at_end": round(watch.rows[-1][2], 1),
        "rows": [(t, n, round(mb, 1)) for t, n, mb in watch.rows],
    }


def at(watch: Watch, done: int) -> float:
    """Memory when so many draws were finished."""
    return round(next(mb for _, number, mb in watch.rows if number >= done), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--chunk-size", type=int, default=100)
    arguments = parser.parse_args()
    record = soak(arguments.draws, arguments.chunk_size)
    RESULT.write_text(json.dumps(record) + "\n")
    print({name: value for name, value in record.items() if name != "rows"})


if __name__ == "__main__":
    main()
