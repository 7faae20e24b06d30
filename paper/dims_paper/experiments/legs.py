"""Long trajectories in legs: each ends in a file, and the next goes on from it.

The motion knows no past, so a leg needs nothing but positions and velocities. It may be on another
surface than the one before, such as one with more data; the energy then jumps by the difference of
the two losses, which is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from dims.mechanics.batch import Progress, Solver
from dims.mechanics.dynamics import Dynamics
from dims.mechanics.integrate import Trajectories, integrate
from dims.surface.loss import LossSurface
from dims_paper.experiments.runs import save_tensors

__all__ = ["Leg", "follow"]


@dataclass(frozen=True, eq=False)
class Leg:
    """Times since the start at which positions are kept, the last of them its end."""

    times: tuple[float, ...]
    surface: LossSurface


def follow(
    legs: Sequence[Leg],
    position: Tensor,
    velocity: Tensor,
    dynamics: Dynamics,
    file_of: Callable[[Leg], Path],
    *,
    solver: str | Solver = "rattle",
    max_evaluations: int | None = None,
    progress: Callable[[float], Callable[[Progress], None]] | None = None,
) -> Iterator[tuple[Leg, dict[str, Tensor]]]:
    """Each leg and what is kept of it; evaluations, seconds and violation are since the start.

    What an evaluation is depends on the solver: of "dopri5" a gradient and a product.
    `progress` makes of the time at which a leg begins what `integrate` reports to.
    """
    device, began = str(position.device), 0.0
    seconds = torch.zeros((), dtype=torch.float64, device=device)
    evaluations = torch.zeros(len(velocity), dtype=torch.int64, device=device)
    violation = torch.zeros(len(velocity), dtype=torch.float64, device=device)
    before: LossSurface | None = None
    for leg in legs:
        path = file_of(leg)
        if not path.exists():
            clock = time.perf_counter()
            motion = integrate(
                leg.surface,
                position,
                velocity,
                dynamics=dynamics,
                solver=solver,
                max_time=leg.times[-1] - began,
                save_at=[t - began for t in leg.times],
                max_evaluations=max_evaluations,
                progress=None if progress is None else progress(began),
            )
            took = torch.tensor(time.perf_counter() - clock, dtype=torch.float64)
            jump = _energy_jump(before, leg.surface, position, motion)
            save_tensors(_kept(motion) | {"seconds": took, "energy_jump": jump}, path)
        kept = load_file(path, device=device)
        position, velocity, began = kept["positions"][-1], kept["velocity"], leg.times[-1]
        before = leg.surface
        seconds, evaluations = seconds + kept["seconds"], evaluations + kept["evaluations"]
        violation = torch.maximum(violation, kept["energy_violation"])
        sums = {"seconds": seconds, "evaluations": evaluations, "energy_violation": violation}
        yield leg, kept | sums


def _energy_jump(
    before: LossSurface | None, surface: LossSurface, position: Tensor, motion: Trajectories
) -> Tensor:
    """What the change of the surface added to the energy: its loss less that of the one before."""
    if before is None or before is surface:
        return torch.zeros_like(motion.start_energy)
    return motion.dynamics.gravity * (surface.value(position) - before.value(position))


def _kept(leg: Trajectories) -> dict[str, Tensor]:
    """Positions at all times and what going on needs; velocities of other times are left out."""
    return {
        "positions": leg.positions,
        "velocity": leg.velocities[-1],
        "loss": leg.loss,
        "kinetic_energy": leg.kinetic_energy,
        "gradient_norm": leg.gradient_norm,
        "evaluations": leg.evaluations,
        "energy_violation": leg.energy_violation,
        "status": torch.tensor([status.code for status in leg.status]),
    }
