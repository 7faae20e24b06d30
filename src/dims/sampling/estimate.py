"""What a run will take: memory from its sizes, time from the first steps of its own motion."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dims.mechanics.batch import Progress
from dims.mechanics.metric.choice import ROW_BYTES
from dims.model.shapes import RowVectors
from dims.model.torch_support.free_memory import check_fits, free_memory, readable
from dims.prediction.showing import Shown
from dims.sampling.samplers import Sampler, Start
from dims.sampling.samplers.trajectory import TrajectorySampler
from dims.sampling.settle import MEMORY as KRYLOV_BYTES
from dims.surface.loss import LossSurface

__all__ = ["Estimate", "check_memory", "estimate_seconds", "needed_memory"]

# Vectors of the size of θ that are alive at once for each draw; measured as 56 and 9.
TRAJECTORY_VECTORS, DRAW_VECTORS = 60, 10
FEWEST_LOOKS = 6  # at the clock, of which the first half is the slow start


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """What a run will take.

    Attributes:
        memory: Bytes at its peak, beside what is in use already.
        free_memory: Bytes that are free now; None where the system does not say.
        seconds: Of the motion of all draws. Settling and certifying come on top, often half as
            much again, and with `refit` ten draws more. It is known to a factor of two or three:
            steps change on the way.
    """

    memory: int
    free_memory: int | None
    seconds: float

    def _facts(self) -> dict[str, str | float]:
        free = "unknown" if self.free_memory is None else readable(self.free_memory)
        return {"memory": readable(self.memory), "free_memory": free, "seconds": self.seconds}

    def __str__(self) -> str:
        free = "" if self.free_memory is None else f" of {readable(self.free_memory)} that are free"
        return f"about {readable(self.memory)}{free}, and {self.seconds:.2g} s of motion"


class _EnoughError(Exception):
    """Ends a trial of the motion."""


def needed_memory(surface: LossSurface, sampler: Sampler, rows: int) -> int:
    """Bytes at the peak of so many draws at once: vectors, activations and Krylov spaces."""
    vector = surface.size * surface.vector.initial.element_size()
    activations = min(surface.memory_budget, rows * surface.points * surface.bytes_per_point)
    if not isinstance(sampler, TrajectorySampler):
        return DRAW_VECTORS * rows * vector + activations
    needed = (TRAJECTORY_VECTORS + len(sampler.save_at)) * rows * vector + activations
    if getattr(sampler, "certify", False):
        needed += min(KRYLOV_BYTES, 300 * rows * vector)
    if sampler.metric != "euclidean":
        needed += rows * min(ROW_BYTES, 100 * vector)
    return needed


def check_memory(surface: LossSurface, sampler: Sampler, rows: int) -> None:
    """Refuse a run whose draws at once do not fit into the free memory.

    Args:
        surface: The surface.
        sampler: The sampler.
        rows: Draws computed together.

    Raises:
        MemoryLimitError: They do not fit; the message says how many would.
    """
    needed = needed_memory(surface, sampler, rows)
    free = free_memory(surface.vector.device)
    fitting = rows if free is None else max(1, rows * free // max(1, 2 * needed))
    check_fits(
        f"draws: {rows} at once of {surface.size} parameters",
        needed,
        surface.vector.device,
        f"compute fewer at a time with store=... and chunk_size={fitting}, or sample a part of "
        "the network with fit(parameters=...)",
    )


def estimate_seconds(
    start: Start, perturbations: RowVectors, sampler: Sampler, within: float
) -> float:
    """Seconds of the motion of these draws, from following them for a little while.

    Args:
        start: Where they start.
        perturbations: ε of the draws, (S, K).
        sampler: The sampler.
        within: Seconds that finding out may take (a few steps are taken in any case).

    Returns:
        The seconds; those of all draws for samplers without a motion.
    """
    looks: list[tuple[float, float]] = []
    began = time.perf_counter()

    def look(now: Progress) -> None:
        passed = time.perf_counter() - began
        looks.append((passed, (now.done * now.end_time + _moving(now)) / now.rows))
        if passed > within and len(looks) >= FEWEST_LOOKS:
            raise _EnoughError

    if not isinstance(sampler, TrajectorySampler):
        sampler.draw(start, perturbations)
        return time.perf_counter() - began
    try:
        sampler.follow(start, perturbations, look)
    except _EnoughError:
        (middle, at_middle), (end, at_end) = looks[len(looks) // 2], looks[-1]
        speed = max(at_end - at_middle, 1e-300) / max(end - middle, 1e-9)
        return end + (sampler.max_time - at_end) / speed
    return time.perf_counter() - began


def _moving(now: Progress) -> float:
    """The times of the rows that move, summed."""
    return (now.rows - now.done) * now.mean_time
