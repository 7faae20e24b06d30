"""Solvers that integrate a trajectory, timed in core-seconds on one thread.

The reference solver is the published one: torchdiffeq's dopri5 at rtol 1e-7 and atol 1e-6, one
trajectory at a time. torchode has one step size per row. The energies of both are evaluated on a
grid of times; those of the solvers of dims after every accepted step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dims.mechanics.batch import SHRINK, SMALLEST_COMPILED, batch_sizes
from dims.mechanics.dynamics import Dynamics, dissipative, geodesic, kinetic_energy
from dims.mechanics.integrate import Trajectories, integrate
from dims.mechanics.ledger import VIOLATION_FLOOR
from dims.surface.loss import LossSurface
from dims_paper.snelson_network import SnelsonProblem, load_problem

__all__ = ["SOLVERS", "TASKS", "EquationOfMotion", "measure"]

RTOL, ATOL = 1e-7, 1e-6
GRID = 201  # times at which the energy of the other solvers is evaluated
TASKS: dict[str, tuple[Dynamics, float]] = {
    "dims": (dissipative(gravity=1.0, friction=0.1), 50.0),
    "rla": (geodesic(), 1.0),
}


def measure(
    solver: str, task: str, rows: int, seed: int, device: str = "cpu", fraction: float = 1.0
) -> dict[str, Any]:
    """Run one solver; numbers are means over rows unless their name says otherwise."""
    dynamics, whole = TASKS[task]
    end = fraction * whole
    return {
        "solver": solver,
        "task": task,
        "rows": rows,
        **SOLVERS[solver](dynamics, end, rows, seed, device),
    }


def _rattle(precision: torch.dtype, metric: str = "euclidean") -> Callable[..., dict[str, Any]]:
    def run(dynamics: Dynamics, end: float, rows: int, seed: int, device: str) -> dict[str, Any]:
        problem = load_problem(precision, device)
        velocity = problem.velocities(rows, seed)
        # Compile all batch sizes that occur before the clock starts.
        began = time.perf_counter()
        sizes = batch_sizes(rows, SHRINK[device], SMALLEST_COMPILED[device])
        for size in sorted(sizes):
            _integrate(problem, velocity[:size], dynamics, 1e-3 * end, compiled=True, metric=metric)
        cold = time.perf_counter() - began
        record, _ = _integrate(problem, velocity, dynamics, end, compiled=True, metric=metric)
        return {**record, "compilation_seconds": cold, "precision": str(precision).split(".")[-1]}

    return run


def _dopri5(dynamics: Dynamics, end: float, rows: int, seed: int, device: str) -> dict[str, Any]:
    problem = load_problem(torch.float64, device)
    velocity = problem.velocities(rows, seed)
    record, _ = _integrate(problem, velocity, dynamics, end, solver="dopri5")
    return {**record, "precision": "float64"}


def _integrate(
    problem: SnelsonProblem,
    velocity: Tensor,
    dynamics: Dynamics,
    end: float,
    *,
    compiled: bool = False,
    solver: str = "rattle",
    metric: str = "euclidean",
) -> tuple[dict[str, Any], Trajectories]:
    surface = problem.surface
    clock = _Clock()
    path = integrate(
        surface,
        surface.initial,
        velocity,
        dynamics=dynamics,
        solver=solver,
        max_time=end,
        compile=compiled,
        metric=metric,
    )
    record = clock.stop(len(velocity))
    kinetic = (path.kinetic_energy[-1] / path.start_kinetic_energy - 1).abs()
    record |= {
        "evaluations": float(path.evaluations.double().mean()),
        "most_evaluations": int(path.evaluations.max()),
        "refreshes": float(path.refreshes.double().mean()),
        "gradient_equivalents": float(path.gradient_equivalents.mean()),
        "worst_energy_violation": float(path.energy_violation.max()),
        "rows_beyond_1e-2": int((path.energy_violation > 1e-2).sum()),
        "gradient_norm": float(path.gradient_norm[-1].mean()),
        "finished": sum(status.ok for status in path.status),
    }
    if dynamics.conservative:
        record["worst_kinetic_change"] = float(kinetic.max())
    else:
        balance = path.energy_balance.abs() / path.dissipated[-1]
        record["worst_energy_balance"] = float(balance.max())
    return record, path


def _reference(dynamics: Dynamics, end: float, rows: int, seed: int, device: str) -> dict[str, Any]:
    from torchdiffeq import odeint

    problem = load_problem(torch.float64, device)
    times = torch.linspace(0, end, GRID, dtype=torch.float64)
    counter = EquationOfMotion(problem.surface, dynamics)
    clock = _Clock()
    states = [
        odeint(counter.one, start, times, method="dopri5", rtol=RTOL, atol=ATOL)
        for start in counter.starts(problem.velocities(rows, seed))
    ]
    record = clock.stop(rows)
    return {
        **record,
        "evaluations": counter.rows / rows,
        **counter.energy_diagnostics(torch.stack(states, 1)),
    }


def _torchode(dynamics: Dynamics, end: float, rows: int, seed: int, device: str) -> dict[str, Any]:
    import torchode

    problem = load_problem(torch.float64, device)
    times = torch.linspace(0, end, GRID, dtype=torch.float64).expand(rows, -1)
    counter = EquationOfMotion(problem.surface, dynamics)
    term = torchode.ODETerm(counter.many)
    controller = torchode.IntegralController(atol=ATOL, rtol=RTOL, term=term)
    solver = torchode.AutoDiffAdjoint(torchode.Dopri5(term=term), controller)
    starts = counter.starts(problem.velocities(rows, seed))
    clock = _Clock()
    with torch.no_grad():
        solution = solver.solve(torchode.InitialValueProblem(y0=starts, t_eval=times))
    record = clock.stop(rows)
    return {
        **record,
        "evaluations": counter.rows / rows,
        **counter.energy_diagnostics(solution.ys.transpose(0, 1)),
    }


SOLVERS: dict[str, Callable[..., dict[str, Any]]] = {
    "reference": _reference,
    "torchode": _torchode,
    "dopri5": _dopri5,
    "rattle": _rattle(torch.float32),
    "rattle, float64": _rattle(torch.float64),
    "rattle, moving metric": _rattle(torch.float32, "moving"),
    "rattle, moving metric, float64": _rattle(torch.float64, "moving"),
}


class _Clock:
    """Core-seconds of this process, which other processes hardly affect, and wall seconds."""

    def __init__(self) -> None:
        self.cores, self.wall = time.process_time(), time.perf_counter()

    def stop(self, rows: int) -> dict[str, float]:
        cores, wall = time.process_time() - self.cores, time.perf_counter() - self.wall
        return {"core_seconds_a_sample": cores / rows, "wall_seconds": wall}


class EquationOfMotion:
    """The equation of motion of (θ, v), with a count of the evaluated rows."""

    def __init__(self, surface: LossSurface, dynamics: Dynamics) -> None:
        self.surface, self.dynamics, self.rows = surface, dynamics, 0

    def starts(self, velocities: Tensor) -> Tensor:
        return torch.cat([self.surface.initial.expand_as(velocities), velocities], dim=1)

    def many(self, _: Tensor, states: Tensor) -> Tensor:
        self.rows += len(states)
        theta, velocity = states.chunk(2, dim=1)
        gradient, product = self.surface.grad_and_hvp(theta, velocity)
        acceleration = self.dynamics.acceleration(velocity, gradient, product)
        return torch.cat([velocity, acceleration], dim=1)

    def one(self, time: Tensor, state: Tensor) -> Tensor:
        return self.many(time, state.unsqueeze(0)).squeeze(0)

    def energy_diagnostics(self, states: Tensor) -> dict[str, Any]:
        """Energies on the grid of times, from states of shape (times, rows, 2K)."""
        losses, kinetics, norms = [], [], []
        for now in states:
            theta, velocity = now.chunk(2, dim=1)
            loss, gradient = self.surface.value_and_grad(theta)
            losses.append(loss)
            kinetics.append(kinetic_energy(velocity, gradient))
            norms.append(gradient.norm(dim=-1))
        loss, kinetic = torch.stack(losses), torch.stack(kinetics)
        result: dict[str, Any] = {
            "precision": "float64",
            "gradient_norm": float(norms[-1].mean()),
            "finished": int(kinetic[-1].isfinite().sum()),
        }
        if self.dynamics.conservative:
            result["worst_kinetic_change"] = float((kinetic / kinetic[0] - 1).abs().max())
            return result
        energy = self.dynamics.energy(kinetic, loss)
        lowest = energy.cummin(0).values
        floor = self.dynamics.potential(loss.min(0).values)
        left = torch.maximum(lowest - floor, VIOLATION_FLOOR * (energy[0] - floor))
        violation = ((energy - lowest) / left).max(0).values
        result["worst_energy_violation"] = float(violation.max())
        result["rows_beyond_1e-2"] = int((violation > 1e-2).sum())
        return result
