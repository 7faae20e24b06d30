"""`integrate`: trajectories of particles on the graph of a surface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import Tensor

from dims.mechanics.batch import Options, Progress, run
from dims.mechanics.checks import (
    check_kinds,
    check_numbers,
    check_start,
    check_times,
    start_losses,
)
from dims.mechanics.dynamics import Dynamics, dissipative
from dims.mechanics.events import StopCondition
from dims.mechanics.metric.moving import MovingMetric
from dims.mechanics.snapshot import Checkpoint
from dims.mechanics.solvers.base import Solver
from dims.mechanics.solvers.dopri5 import Dopri5
from dims.mechanics.solvers.rattle import Rattle
from dims.mechanics.trajectories import Trajectories, assemble
from dims.surface.base import BaseSurface

__all__ = ["Trajectories", "integrate", "resolve_solver"]

METRICS = ("euclidean", "moving")
SOLVERS: dict[str, Callable[..., Solver]] = {"rattle": Rattle, "dopri5": Dopri5}
# Without stiff directions the energy law survives longer steps; docs/moving_metric.md measures it.
LONGER_STEPS = Rattle(
    turn=0.27,
    longest_turn=0.45,
    trim=0.04,
    friction_error=0.03,
    friction_turn=0.7,
    friction_parts=3,
)


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
    metric: str | MovingMetric = "euclidean",
    numbers: Sequence[int] | None = None,
) -> Trajectories:
    """Move particles on the graph of a surface from the given positions and velocities.

    Args:
        surface: The loss, a `dims.Surface` or `dims.LossSurface`.
        position: (K,) or (S, K); one position may start many velocities, and the other way round.
        velocity: (K,) or (S, K), of the same dtype and on the same device.
        dynamics: The forces; None means those of DiMS, `dims.dissipative(1.0, 0.1)`.
        solver: "rattle", "dopri5" or a `dims.Solver` object such as `dims.Rattle(1e-3)`.
        tolerance: With a solver's name, its tolerance; None means its default.
        max_time: When every trajectory ends.
        max_evaluations: Gradients that a row may use; None: a row ends that would need a million.
        stop: A condition that ends rows early, such as `dims.AtRest()`.
        save_at: Increasing times whose states are returned; None means each row's end.
        compile: Compile the whole step: half a minute, then several times faster.
        progress: Called now and then with a `Progress`.
        metric: "euclidean", as in the paper, "moving", or a `dims.MovingMetric(...)`.
        numbers: The numbers of the rows, for what is random in a moving metric; None: 0, 1, 2, …
        checkpoint: Keeps the state now and then; the same call continues there, bitwise identical.

    Returns:
        States at the saved times, and what there is to know about each row's trajectory.

    Raises:
        TypeError, ValueError: An argument is of the wrong kind, shape or size; it is named.

    Example:
        >>> surface = dims.Surface(lambda theta: (theta.square().sum() - 1).square())
        >>> path = dims.integrate(surface, torch.tensor([1.0, 0.0]), torch.randn(8, 2), max_time=5)
        >>> path.end, path.energy_violation.max()
    """
    dynamics = dissipative() if dynamics is None else dynamics
    check_kinds(surface, dynamics, stop, max_time, max_evaluations)
    position, velocity = check_start(position, velocity)
    check_numbers(numbers, len(position))
    chosen = resolve_solver(solver, tolerance, metric)
    start_loss = start_losses(surface, position)
    times = check_times(max_time, save_at, position.device)
    moving = resolve_metric(metric, chosen)
    options = Options(save_at is not None, max_evaluations, stop, compile, progress, checkpoint)
    options = replace(options, metric=moving, numbers=numbers)
    outcome = run(chosen, surface, dynamics, position, velocity, times, options)
    return assemble(outcome, surface, dynamics, position, velocity, start_loss, times, save_at)


def resolve_solver(
    solver: str | Solver, tolerance: float | None, metric: str | MovingMetric = "euclidean"
) -> Solver:
    """A solver by name or as an object; a tolerance goes with a name only.

    "rattle" by name takes longer steps in a moving metric.
    """
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
    named = SOLVERS[solver]()
    if metric != "euclidean" and solver == "rattle":
        named = LONGER_STEPS
    return named if tolerance is None else replace(named, tolerance=tolerance)  # type: ignore[type-var]


def resolve_metric(metric: str | MovingMetric, solver: Solver) -> MovingMetric | None:
    """None for the euclidean metric; a solver must know how to work in another."""
    if isinstance(metric, MovingMetric):
        chosen: MovingMetric | None = metric
    elif metric in METRICS:
        chosen = MovingMetric() if metric == "moving" else None
    else:
        raise ValueError(
            f"metric: {metric!r} is unknown; give {', '.join(METRICS)} or dims.MovingMetric(...)"
        )
    if chosen is not None and not solver.any_metric:
        raise ValueError(
            f"metric: {type(solver).__name__} works in the euclidean metric only; use "
            'metric="euclidean", or give the solver a restart (see dims.Solver)'
        )
    return chosen
