"""`integrate`: trajectories of a particle on a surface, and what there is to know about each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dims.mechanics.batch import Outcome, Progress, Solver, run
from dims.mechanics.dynamics import Dynamics, dissipative
from dims.mechanics.events import StopCondition
from dims.mechanics.ledger import project_to_tangent
from dims.mechanics.snapshot import Checkpoint
from dims.mechanics.solvers.dopri5 import Dopri5
from dims.mechanics.solvers.rattle import Rattle
from dims.mechanics.status import Status
from dims.model.shapes import RowIntegers, RowScalars, RowVectors, check_rows
from dims.surface.base import BaseSurface

__all__ = ["Trajectories", "integrate", "resolve_solver"]

SOLVERS: dict[str, Callable[..., Solver]] = {"rattle": Rattle, "dopri5": Dopri5}


@dataclass(frozen=True)
class Trajectories:
    """Trajectories at the saved times, T of them; without `save_at` each row's end, T = 1.

    E = T + κL. See docs/solvers.md for energy violation, balance and step error.
    """

    times: Tensor  # (T,); NaN where rows ended at different times and nothing was saved
    positions: Tensor  # (T, S, K)
    velocities: Tensor
    loss: Tensor  # (T, S)
    gradient_norm: Tensor
    kinetic_energy: Tensor
    energy: Tensor
    dissipated: Tensor  # ∫2ηT dt up to each saved time, by independent quadrature
    end_time: RowScalars  # (S,) from here on
    start_energy: RowScalars
    end_energy: RowScalars
    start_kinetic_energy: RowScalars
    lowest_loss: RowScalars
    lowest_kinetic_energy: RowScalars
    energy_violation: RowScalars
    energy_balance: RowScalars
    step_error: RowScalars
    arc_length: RowScalars
    steps: RowIntegers
    rejections: RowIntegers
    evaluations: RowIntegers
    status: list[Status]
    dynamics: Dynamics

    @property
    def end(self) -> RowVectors:
        """The last saved position of each row."""
        return self.positions[-1]


def integrate(
    surface: BaseSurface,
    position: Tensor,
    velocity: Tensor,
    *,
    dynamics: Dynamics | None = None,
    solver: str | Solver = "rattle",
    tolerance: float | None = None,
    max_time: float = 50.0,
    max_evaluations: int | None = None,
    stop: StopCondition | None = None,
    save_at: Sequence[float] | Tensor | None = None,
    compile: bool = False,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trajectories:
    """Move particles on the graph of a surface from the given positions and velocities.

    `position` and `velocity` are (K,) for one particle or (S, K) for many; a (K,) position may
    start many velocities. The default dynamics are those of DiMS, `dissipative(1.0, 0.1)`.
    `compile=True` compiles the whole step (half a minute, then several times faster; on a GPU it
    is also captured as a graph) and pays on long runs of a network. A `checkpoint` keeps the state
    now and then, and the same call goes on from there with the same bits.
    """
    dynamics = dissipative() if dynamics is None else dynamics
    _check_kinds(surface, dynamics, stop, max_time)
    position, velocity = _check_start(position, velocity)
    chosen = resolve_solver(solver, tolerance)
    start_loss = surface.value(position)
    if not start_loss.isfinite().any():
        raise ValueError(
            "position: the loss is NaN or infinite at every start; start where the surface is "
            "finite, or look at its function"
        )
    times = _check_times(max_time, save_at, position.device)
    if max_evaluations is not None and max_evaluations < 1:
        raise ValueError(f"max_evaluations: must be at least 1, got {max_evaluations}")
    outcome = run(
        chosen,
        surface,
        dynamics,
        position,
        velocity,
        times,
        save=save_at is not None,
        max_evaluations=max_evaluations,
        stop=stop,
        compiled=compile,
        progress=progress,
        checkpoint=checkpoint,
    )
    ledger = outcome.ledger
    end = _measure(
        surface, outcome.position[None], outcome.velocity[None], outcome.climb[None], dynamics
    )
    if save_at is None:
        times = outcome.time[:1]
        if not (outcome.time == times).all():
            times = torch.full_like(times, torch.nan)
        shown, dissipated = end, ledger.dissipated[None]
        positions = outcome.position[None]
    else:
        wanted = torch.as_tensor(save_at, dtype=torch.float64, device=position.device)
        positions, velocities, climbs, dissipated = _saved(outcome, position, velocity, surface)
        kept = torch.searchsorted(torch.cat([times.new_zeros(1), times]), wanted)
        times, positions, dissipated = wanted, positions[kept], dissipated[kept]
        shown = _measure(surface, positions, velocities[kept], climbs[kept], dynamics)
    return Trajectories(
        times=times,
        positions=positions,
        velocities=shown.velocities,
        loss=shown.loss,
        gradient_norm=shown.gradient_norm,
        kinetic_energy=shown.kinetic,
        energy=shown.energy,
        dissipated=dissipated,
        end_time=outcome.time,
        start_energy=ledger.start_energy,
        end_energy=end.energy[0],
        start_kinetic_energy=ledger.start_energy - dynamics.gravity * start_loss,
        lowest_loss=ledger.lowest_loss,
        lowest_kinetic_energy=ledger.lowest_kinetic,
        energy_violation=outcome.energy_violation,
        energy_balance=ledger.start_energy - end.energy[0] - ledger.dissipated,
        step_error=ledger.step_error,
        arc_length=ledger.arc_length,
        steps=ledger.steps,
        rejections=ledger.rejections,
        evaluations=ledger.evaluations,
        status=[Status.from_code(code) for code in outcome.status.tolist()],
        dynamics=dynamics,
    )


def resolve_solver(solver: str | Solver, tolerance: float | None) -> Solver:
    """A solver by name or as an object; a tolerance goes with a name only."""
    if not isinstance(solver, str):
        if isinstance(solver, type) or not isinstance(solver, Solver):
            raise TypeError(
                f"solver: expected a name ({', '.join(SOLVERS)}) or an object such as "
                f"dims.Rattle(), got {solver!r}"
            )
        if tolerance is not None:
            raise ValueError("tolerance: give it to the solver object itself")
        return solver
    if solver not in SOLVERS:
        raise ValueError(f"solver: {solver!r} is unknown; there are {', '.join(SOLVERS)}")
    return SOLVERS[solver]() if tolerance is None else SOLVERS[solver](tolerance=tolerance)


class _Measured(NamedTuple):
    """States with their energies, (T, S) and velocities (T, S, K)."""

    velocities: Tensor
    loss: Tensor
    gradient_norm: Tensor
    kinetic: Tensor
    energy: Tensor


def _measure(
    surface: BaseSurface,
    positions: Tensor,
    velocities: Tensor,
    climbs: Tensor,
    dynamics: Dynamics,
) -> _Measured:
    """Evaluate afresh at every state, with (v, w) projected onto the exact tangent plane.

    A solver may carry a gradient that is good to first order only; where gradients are large, w
    taken from it and gᵀv differ, and the projection is the state that both stand for.
    """
    columns = []
    for theta, v, climb in zip(positions, velocities, climbs, strict=True):
        loss, gradient = surface.value_and_grad(theta)
        v, climb = project_to_tangent(v, climb, gradient)
        kinetic = 0.5 * (v.double().square().sum(-1) + climb.square())
        norm = torch.linalg.vector_norm(gradient, dim=-1).double()
        columns.append((v, loss, norm, kinetic, kinetic + dynamics.gravity * loss))
    return _Measured(*(torch.stack(column) for column in zip(*columns, strict=True)))


def _saved(
    outcome: Outcome, position: Tensor, velocity: Tensor, surface: BaseSurface
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The saved states with the start in front."""
    assert outcome.saved_position is not None
    assert outcome.saved_velocity is not None
    assert outcome.saved_climb is not None
    assert outcome.saved_dissipated is not None
    _, gradient = surface.value_and_grad(position)
    climb = torch.linalg.vecdot(gradient, velocity).double()
    return (
        torch.cat([position[None], outcome.saved_position]),
        torch.cat([velocity[None], outcome.saved_velocity]),
        torch.cat([climb[None], outcome.saved_climb]),
        torch.cat([torch.zeros_like(climb)[None], outcome.saved_dissipated]),
    )


def _check_kinds(surface: object, dynamics: object, stop: object, max_time: object) -> None:
    if not isinstance(surface, BaseSurface):
        raise TypeError(
            f"surface: expected a Surface or LossSurface, got {type(surface).__name__}; "
            "wrap a function as dims.Surface(function)"
        )
    if not isinstance(dynamics, Dynamics):
        raise TypeError(
            f"dynamics: expected an object such as dims.geodesic() or dims.dissipative(), "
            f"got {dynamics!r}"
        )
    if stop is not None and not callable(stop):
        raise TypeError(f"stop: expected a condition such as dims.AtRest(), got {stop!r}")
    if isinstance(max_time, bool) or not isinstance(max_time, (int, float)):
        raise TypeError(f"max_time: expected a number, got {max_time!r}")


def _check_start(position: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
    for name, tensor in (("position", position), ("velocity", velocity)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.ndim not in (1, 2):
            raise ValueError(f"{name}: expected shape (K,) or (S, K), got {tuple(tensor.shape)}")
    position = position.unsqueeze(0) if position.ndim == 1 else position
    velocity = velocity.unsqueeze(0) if velocity.ndim == 1 else velocity
    check_rows("position", position)
    check_rows("velocity", velocity)
    if position.dtype != velocity.dtype or position.device != velocity.device:
        raise TypeError(
            f"velocity: {velocity.dtype} on {velocity.device}, but the position is "
            f"{position.dtype} on {position.device}; convert one of them"
        )
    if position.shape[1] != velocity.shape[1]:
        raise ValueError(
            f"velocity: {velocity.shape[1]} parameters, but the position has {position.shape[1]}"
        )
    if len(position) == 1 and len(velocity) > 1:
        position = position.expand(len(velocity), -1)
    if len(velocity) == 1 and len(position) > 1:
        velocity = velocity.expand(len(position), -1)
    if len(position) != len(velocity):
        raise ValueError(f"velocity: {len(velocity)} rows, but {len(position)} positions")
    if len(position) == 0:
        raise ValueError("position: no rows given")
    for name, tensor in (("position", position), ("velocity", velocity)):
        if not tensor.isfinite().all():
            raise ValueError(f"{name}: contains NaN or infinite values")
    return position.detach().clone(), velocity.detach().clone()


def _check_times(
    max_time: float, save_at: Sequence[float] | Tensor | None, device: torch.device
) -> Tensor:
    if not (math.isfinite(max_time) and max_time > 0):
        raise ValueError(f"max_time: must be positive and finite, got {max_time}")
    end = torch.tensor([float(max_time)], dtype=torch.float64, device=device)
    if save_at is None:
        return end
    times = torch.as_tensor(save_at, dtype=torch.float64, device=device)
    if times.ndim != 1 or len(times) == 0:
        raise ValueError("save_at: expected a list of times")
    if not times.isfinite().all() or (times.diff() <= 0).any() or times[0] < 0:
        raise ValueError("save_at: times must be increasing and not negative")
    if times[-1] > max_time:
        raise ValueError(f"save_at: ends at {float(times[-1])}, after max_time {max_time}")
    times = times[times > 0]  # the start needs no landing
    return times if len(times) and times[-1] == end[0] else torch.cat([times, end])
