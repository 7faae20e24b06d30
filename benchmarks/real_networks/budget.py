"""Time that is lent in pieces: runs stop by themselves before it ends, and go on later."""

from __future__ import annotations

import fcntl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from dims.errors import SnapshotError
from dims.mechanics.record import PAGE
from dims_paper.cache import load_tensors, save_tensors

# What is kept of a motion that is stopped: where it is, and its energies so far.
LOOKED_AT = (
    *("state.position", "state.time", "positions", "rows", "page_lengths", *PAGE),
    *(f"state.ledger.{name}" for name in ("lowest_loss", "start_energy", "evaluations")),
)


class OutOfTime(Exception):
    """The piece of time is over; everything that was finished is in its files."""


@dataclass
class Budget:
    """Seconds from now on; infinite where there is no limit."""

    seconds: float = float("inf")
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return self.began + self.seconds - time.monotonic()

    def need(self, seconds: float, what: str) -> None:
        """Refuse to begin what would not be finished."""
        if self.left < seconds:
            raise OutOfTime(f"{what} needs about {seconds:.0f} s, {self.left:.0f} are left")


@contextmanager
def stopwatch(device: torch.device) -> Iterator[Callable[[], float]]:
    """Seconds since the block began, with all that the GPU has been given to do."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    began = now()
    yield lambda: now() - began


@contextmanager
def alone(device: torch.device) -> Iterator[None]:
    """Work that is timed has the GPU to itself: other programs of this kind wait for their turn,
    and compile meanwhile."""
    if device.type != "cuda":
        yield
        return
    with (Path(tempfile.gettempdir()) / "real_networks_gpu.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Keeper:
    """The state of a motion in a file: `dims.integrate(checkpoint=...)` continues from it.

    It notes when which time was reached, and ends the run when its budget is over.
    """

    def __init__(self, path: Path, budget: Budget, every: float = 90.0, reserve: float = 15.0):
        self.path, self.budget, self.every, self.reserve = path, budget, every, reserve
        self.before, self.began = 0.0, time.perf_counter()
        self.history: list[tuple[float, float]] = []  # seconds, least time of all rows
        self.saved = time.monotonic()
        self.now: dict[str, Tensor] = {}

    @property
    def seconds(self) -> float:
        """Of the motion, in all pieces."""
        return self.before + time.perf_counter() - self.began

    def load(self) -> dict[str, Tensor] | None:
        if not self.path.exists():
            return None
        found = load_tensors(self.path)
        history = found.pop("history").tolist()
        self.history = [(a, b) for a, b in history]
        self.before, self.began = float(found.pop("seconds")), time.perf_counter()
        print(f"going on at t = {self.history[-1][1]:.3f}", flush=True)
        return found

    def offer(self, pack: Callable[[], dict[str, Tensor]]) -> None:
        state = pack()
        least = float(state["state.time"].min())
        self.history.append((self.seconds, least))
        over = self.budget.left < self.reserve
        if over or time.monotonic() - self.saved >= self.every:
            self._save(state)
        if over:
            self.now = {name: state[name].clone() for name in LOOKED_AT}
            raise OutOfTime(f"the motion is at t = {least:.3f}")

    def refuse(self, error: SnapshotError) -> None:
        print(f"{self.path}: {error}; the motion starts anew", flush=True)
        self.history, self.before, self.began = [], 0.0, time.perf_counter()

    def reached(self, when: float) -> float:
        """Seconds after which all rows had passed a time."""
        return next((s for s, least in self.history if least >= when), self.seconds)

    def _save(self, state: dict[str, Tensor]) -> None:
        extra = {
            "history": torch.tensor(self.history, dtype=torch.float64),
            "seconds": torch.tensor(self.seconds, dtype=torch.float64),
        }
        whole = {name: tensor.contiguous() for name, tensor in state.items()} | extra
        save_tensors(whole, self.path)
        self.saved = time.monotonic()
