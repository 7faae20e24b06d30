"""Checks that a solver or a friction keeps its contract, for implementations outside the package.

They need nothing but torch, take seconds and raise an AssertionError that says what is wrong:

    check_solver(MySolver, order=4)
    check_friction(MyFriction(0.3))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dims.errors import SnapshotError
from dims.mechanics.dynamics import Friction, damped, dissipative, geodesic, gravitational
from dims.mechanics.integrate import integrate
from dims.mechanics.solvers.base import RowState, Solver
from dims.mechanics.status import Status
from dims.mechanics.trajectories import Trajectories
from dims.surface.function import Surface

__all__ = ["check_friction", "check_solver"]

ACCURACY = 1e-2  # what the default settings of a solver keep
STEPS = (0.05, 0.025)  # for the order of convergence
MOST_ADVANCES = 20_000


def check_solver(make_solver: Callable[..., Solver], order: int | None = None) -> None:
    """Check a solver against closed forms, the energy law and the batch runner's needs.

    It checks that energy is conserved without friction and falls by ∫2ηT dt with it, that rows land
    exactly on the times asked for, that a row is the same alone and in a batch, that a row which
    runs into NaN ends with a status and leaves the others alone, that evaluations are counted, that
    a run continues from a checkpoint bitwise identically, and the order of convergence.

    Args:
        make_solver: Returns a solver with its default settings; with an order also called as
            `make_solver(step=h)` for one with a fixed step. A class will do.
        order: The order of convergence at fixed steps; None leaves it unchecked.

    Raises:
        AssertionError: The solver breaks its contract; the message says how.

    Example:
        >>> check_solver(dims.Rattle, order=2)
    """
    solver = make_solver()
    _require(isinstance(solver, Solver), f"{solver!r} does not derive from dims.Solver")
    _check_energy(solver)
    _check_landing(solver)
    _check_rows(solver)
    _check_poison(solver)
    _check_budget(solver)
    _check_checkpoint(solver)
    if order is not None:
        _check_order(make_solver, order)


def check_friction(friction: Friction) -> None:
    """Check that the four methods of a friction describe one law.

    `decay` must be the exact flow of v' = −η(T)·v, `power` 2ηT and `power_slope` its derivative.

    Args:
        friction: The friction, with a rate above zero.

    Raises:
        AssertionError: Two methods contradict each other; the message names them.

    Example:
        >>> check_friction(dims.SpeedFriction(0.3))
    """
    names = ("rate", "decay", "power", "power_slope")
    lacking = [name for name in names if not callable(getattr(friction, name, None))]
    _require(not lacking, f"{friction!r} lacks {', '.join(lacking)}, required by dims.Friction")
    _require(is_dataclass(friction), f"{friction!r}: files need a dataclass")
    kinetic = torch.tensor([1e-3, 0.4, 30.0], dtype=torch.float64)
    rate = friction.rate(kinetic)
    _require(bool((rate > 0).all()), "rate: must be positive where the particle moves")
    time, steps = 2.0 / rate, 400

    def slope(factor: Tensor) -> Tensor:
        return -friction.rate(factor.square() * kinetic) * factor

    factor, h = torch.ones_like(kinetic), time / steps
    for _ in range(steps):  # classical Runge–Kutta
        k1 = slope(factor)
        k2 = slope(factor + 0.5 * h * k1)
        k3 = slope(factor + 0.5 * h * k2)
        factor = factor + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(factor + h * k3))
    _close("decay: not the flow of the rate", friction.decay(kinetic, time), factor, 1e-8)
    none = friction.decay(kinetic, torch.zeros_like(kinetic))
    _close("decay: not 1 after no time", none, torch.ones_like(none), 1e-12)
    power = friction.power(kinetic)
    _close("power: not 2·rate·T", power, 2 * rate * kinetic, 1e-10)
    change = friction.power(1.00001 * kinetic) - friction.power(0.99999 * kinetic)
    _close(
        "power_slope: not the derivative of power",
        friction.power_slope(kinetic),
        change / (2e-5 * kinetic),
        1e-6,
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _close(what: str, ours: Tensor, expected: Tensor, tolerance: float) -> None:
    error = float(((ours - expected).abs() / (1e-300 + expected.abs().amax())).max())
    _require(error <= tolerance, f"{what}: off by {error:.2g}, allowed {tolerance:g}")


def _rows(*numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _sphere() -> Surface:
    """Minima: the unit circle."""
    return Surface(lambda theta: (theta.square().sum() - 1).square())


START = _rows([1.0, 0.0], [1.0, 0.0], [0.6, 0.8])
VELOCITY = _rows([0.3, 1.0], [-0.2, 0.4], [0.6, 0.2])


def _go(solver: Solver, **options: Any) -> Trajectories:
    """Three rows on the sphere under all forces."""
    forces: dict[str, Any] = {"dynamics": dissipative(1.0, 0.5), "max_time": 1.0}
    return integrate(_sphere(), START, VELOCITY, solver=solver, **forces | options)


def _check_energy(solver: Solver) -> None:
    tilt = _rows([3.0, -1.0])
    plane = Surface(lambda theta: theta @ tilt[0])
    fall = integrate(
        plane, START, VELOCITY, dynamics=gravitational(2.0), solver=solver, max_time=1.0
    )
    exact = START + VELOCITY - tilt / (1 + tilt.square().sum())
    _close("a fall on a tilted plane is not a parabola", fall.end, exact, ACCURACY)
    for name, dynamics in (("a geodesic", geodesic()), ("gravity", gravitational(1.0))):
        worst = float(_go(solver, dynamics=dynamics).energy_violation.max())
        _require(worst <= ACCURACY, f"energy is not conserved under {name}: changed by {worst:.2g}")
    path = _go(solver)
    _require(all(s is Status.FINISHED for s in path.status), f"rows ended as {path.status}")
    worst = float(path.energy_violation.max())
    _require(worst <= ACCURACY, f"energy rises under friction, by {worst:.2g} of what is left")
    lost = path.start_energy - path.end_energy
    _close("the energy lost is not ∫2ηT dt", lost, path.dissipated[-1], ACCURACY)


def _check_landing(solver: Solver) -> None:
    times, surface, dynamics = _rows([0.1, 0.25, 0.7])[0], _sphere(), dissipative(1.0, 0.5)
    state: RowState = solver.start(surface, dynamics, START, VELOCITY, 0.7)
    seen = torch.zeros(len(START), dtype=torch.int64)
    for _ in range(MOST_ADVANCES):
        if state.refreshing.any():
            state = solver.refresh(state, surface, dynamics)
        state = solver.advance(state, surface, dynamics, times)
        for row in state.landed.nonzero().squeeze(-1).tolist():
            expected, reached = float(times[seen[row]]), float(state.time[row])
            _require(reached == expected, f"a row landed at {reached!r}, not at {expected!r}")
        seen = seen + state.landed
        state = replace(state, landed=torch.zeros_like(state.landed))
        if not state.running.any():
            break
    _require(seen.tolist() == [3] * len(START), f"rows landed {seen.tolist()} times, not 3 each")
    finished = bool((state.status == Status.FINISHED.code).all())
    _require(finished, "rows that reached the last time are not FINISHED")
    saved = _go(solver, save_at=times, max_time=0.7)
    early = _go(solver, max_time=0.25)
    _close("a saved state is not that of its time", saved.positions[1], early.end, ACCURACY)


def _check_rows(solver: Solver) -> None:
    whole = _go(solver)
    for row in range(len(START)):
        alone = integrate(
            _sphere(),
            START[row],
            VELOCITY[row],
            dynamics=dissipative(1.0, 0.5),
            solver=solver,
            max_time=1.0,
        )
        _close("a row depends on the others of its batch", whole.end[row], alone.end[0], 1e-9)
        counts = int(whole.steps[row]), int(alone.steps[0])
        _require(counts[0] == counts[1], f"steps of a row: {counts[0]} in a batch, {counts[1]}")


def _check_poison(solver: Solver) -> None:
    """The middle row runs into NaN."""

    def wall(theta: Tensor) -> Tensor:
        return theta.square().sum() + torch.where(theta[0] > 1.5, math.nan, 0.0)

    start, velocity = (
        _rows([0.1, 0.0], [1.0, 0.0], [0.0, 0.2]),
        _rows([0.1, 0.3], [2.0, 0.0], [0.0, -0.1]),
    )

    def go(rows: list[int]) -> Trajectories:
        return integrate(Surface(wall), start[rows], velocity[rows], solver=solver, max_time=1.0)

    mixed, healthy = go([0, 1, 2]), go([0, 2])
    over = (Status.NOT_FINITE, Status.STALLED)
    _require(mixed.status[1] in over, f"a row that met NaN ended as {mixed.status[1]}")
    _require(bool(mixed.end.isfinite().all()), "a row that met NaN lost its last good state")
    _require([mixed.status[0], mixed.status[2]] == healthy.status, "NaN ended other rows too")
    _close("NaN in one row changed the others", mixed.end[[0, 2]], healthy.end, 1e-9)


def _check_budget(solver: Solver) -> None:
    path = _go(solver, max_time=5.0, max_evaluations=30)
    spent = [status is Status.BUDGET_SPENT for status in path.status]
    _require(all(spent), f"rows without a budget ended as {path.status}: count evaluations")
    _require(bool((path.evaluations >= 30).all()), "evaluations are not counted")


class _Memory:
    """A checkpoint that keeps every state, and offers one of them."""

    def __init__(self, start: dict[str, Tensor] | None = None) -> None:
        self.start, self.kept = start, list[dict[str, Tensor]]()

    def load(self) -> dict[str, Tensor] | None:
        return self.start

    def offer(self, pack: Callable[[], dict[str, Tensor]]) -> None:
        self.kept.append({name: tensor.clone() for name, tensor in pack().items()})

    def refuse(self, error: SnapshotError) -> None:
        raise AssertionError(f"a state does not fit into its own checkpoint: {error}")


def _check_checkpoint(solver: Solver) -> None:
    memory, times = _Memory(), [0.5, 1.5]
    whole = _go(solver, save_at=times, max_time=1.5, checkpoint=memory)
    half = memory.kept[len(memory.kept) // 2]
    again = _go(solver, save_at=times, max_time=1.5, checkpoint=_Memory(half))
    for name in ("positions", "velocities", "dissipated", "energy_violation", "steps"):
        same = torch.equal(getattr(whole, name), getattr(again, name))
        _require(same, f"{name} of a resumed run differ: what a step carries is not in its state")


def _check_order(make_solver: Callable[..., Solver], order: int) -> None:
    """A geodesic on z = x²/2 and, where gradients vanish, a damped oscillator."""

    def arc(u: float) -> float:
        return 0.5 * (u * math.sqrt(1 + u * u) + math.asinh(u))

    parabola, speed, end = Surface(lambda theta: 0.5 * theta.square().sum()), math.sqrt(1.25), 1.3
    point = 1.0
    for _ in range(100):  # Newton: the point that far along the arc from −½
        point -= (arc(point) - arc(-0.5) - end * speed) / math.sqrt(1 + point**2)
    scale, half_rate, time = 1e-12, 0.15, 3.0
    flat, turns = Surface(lambda theta: 0.5 * scale * theta.square().sum()), math.sqrt(1 - 0.15**2)
    fading, sine = math.exp(-half_rate * time), math.sin(turns * time) / turns
    swing = fading * (math.cos(turns * time) + half_rate * sine)
    cases = {
        "a geodesic": (
            parabola, -0.5, 1.0, geodesic(), end, point, speed / math.sqrt(1 + point**2)
        ),
        "a damped oscillator": (
            flat, 1.0, 0.0, damped(1 / scale, 2 * half_rate), time, swing, -fading * sine
        ),
    }  # fmt: skip
    for name, (surface, u, v, dynamics, until, exact, exact_velocity) in cases.items():
        errors = []
        for step in STEPS:
            solver = make_solver(step=step)
            path = integrate(
                surface, _rows([u]), _rows([v]), dynamics=dynamics, solver=solver, max_time=until
            )
            error = abs(float(path.end) - exact) + abs(float(path.velocities) - exact_velocity)
            errors.append(error)
        found = math.log(errors[0] / errors[1]) / math.log(STEPS[0] / STEPS[1])
        _require(found >= order - 0.3, f"order {found:.2f} on {name}, not {order}")
