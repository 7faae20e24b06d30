"""Compare the step size with the period of the stiffest mode.

    python benchmarks/stiffest_mode.py

Follows four Snelson trajectories and prints quantiles of ωh, with ω² = λ_max·(κ + vᵀHv)/(1 + ‖g‖²)
from dense Hessians. An explicit second-order method is unstable beyond ωh = 2. Needs DIMS_DATA.
"""

from __future__ import annotations

import torch
from torch import Tensor

import dims
from dims.mechanics.dynamics import Dynamics
from dims_paper.snelson_network import load_problem
from speed.solvers import TASKS

ROWS = 4
TIMES = (5.0, 10.0, 20.0, 30.0)
WARM_UP, TICKS, EVERY = 100, 330, 23


def phases(
    surface: dims.LossSurface, dynamics: Dynamics, position: Tensor, velocity: Tensor
) -> Tensor:
    """ωh of all rows at every `EVERY`-th of the next steps."""
    solver = dims.Rattle()
    times = torch.tensor([1e3], dtype=torch.float64)
    state = solver.start(surface, dynamics, position, velocity, 50.0)
    found = []
    for tick in range(TICKS):
        state = solver.refresh(state, surface, dynamics) if state.refreshing.any() else state
        state = solver.advance(state, surface, dynamics, times)
        if tick < WARM_UP or tick % EVERY:
            continue
        for theta, v, g, step in zip(
            state.position, state.velocity, state.gradient, state.step, strict=True
        ):
            hessian = surface.hessian(theta)
            push = (dynamics.gravity + (v @ hessian @ v).abs()) / (1 + g @ g)
            found.append(step * (torch.linalg.eigvalsh(hessian)[-1] * push).sqrt())
    return torch.stack(found)


def main() -> None:
    torch.set_num_threads(1)
    problem = load_problem()
    dynamics, _ = TASKS["dims"]
    path = dims.integrate(
        problem.surface,
        problem.surface.initial,
        problem.velocities(ROWS, seed=77),
        dynamics=dynamics,
        max_time=TIMES[-1],
        save_at=TIMES,
        compile=True,
    )
    wanted = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    states = zip(path.times.tolist(), path.positions, path.velocities, strict=True)
    for time, position, velocity in states:
        if time > 0:
            low, middle, high = phases(problem.surface, dynamics, position, velocity).quantile(
                wanted
            )
            print(f"from t = {time:g}: omega h {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
