"""Time diffrax on the Snelson problem, for `python benchmarks/solver_speed.py --diffrax PYTHON`.

    python benchmarks/diffrax_speed.py PROBLEM.safetensors RESULT.json --rows 3

Runs in an environment of its own with jax, diffrax and safetensors; torch is not needed. It uses
one thread, follows one trajectory at a time, and compiles before it starts the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from itertools import pairwise
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import diffrax
import jax
import jax.numpy as jnp
from safetensors.numpy import load_file

jax.config.update("jax_enable_x64", True)
WIDTHS = (1, 16, 16, 16, 1)
GRAVITY, FRICTION = 1.0, 0.1
SOLVERS = {
    "diffrax Dopri5": (diffrax.Dopri5, 1e-7, 1e-6, 6),
    "diffrax Dopri8 at 1e-9": (diffrax.Dopri8, 1e-9, 1e-9, 13),
}
MOST_STEPS = 10_000_000


def make_loss(problem):
    """The negative log joint of the Snelson network as a function of its 593 parameters."""
    inputs, targets = problem["inputs"], problem["targets"]
    noise, prior = float(problem["noise"][0]), float(problem["prior"][0])

    def loss(theta):
        hidden, at = inputs, 0
        for layer, (into, out) in enumerate(pairwise(WIDTHS)):
            weight = theta[at : at + into * out].reshape(out, into)
            bias = theta[at + into * out : at + into * out + out]
            hidden, at = hidden @ weight.T + bias, at + into * out + out
            if layer < len(WIDTHS) - 2:
                hidden = jax.nn.gelu(hidden, approximate=False)
        misfit = 0.5 * jnp.square((hidden - targets) / noise).sum()
        constant = targets.size * (jnp.log(noise) + 0.5 * jnp.log(2 * jnp.pi))
        return misfit + constant + 0.5 * prior * jnp.square(theta).sum()

    return loss


def kinetic_energy(velocity, gradient):
    return 0.5 * (velocity @ velocity + (gradient @ velocity) ** 2)


def make_field(loss):
    """The right-hand side of the equation of motion of (θ, v)."""
    gradient_of = jax.grad(loss)

    def field(_, state, __):
        theta, velocity = state
        gradient, product = jax.jvp(gradient_of, (theta,), (velocity,))
        push = (velocity @ product + GRAVITY) / (1 + gradient @ gradient)
        friction = FRICTION * jnp.sqrt(kinetic_energy(velocity, gradient))
        return velocity, -push * gradient - friction * velocity

    return field


def make_solve(field, theta, solver, rtol, atol):
    """A compiled function from a start velocity and the times to save to a solution."""

    def solve(velocity, times):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            solver(),
            t0=0.0,
            t1=times[-1],
            dt0=None,
            y0=(theta, velocity),
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
            max_steps=MOST_STEPS,
            adjoint=diffrax.ForwardMode(),
            throw=False,
        )

    return jax.jit(solve)


def energy_violation(energy, losses):
    """The largest rise of the energy above its running minimum, relative to what can be lost."""
    lowest = jax.lax.cummin(energy)
    floor = GRAVITY * losses.min()
    left = jnp.maximum(lowest - floor, 1e-4 * (energy[0] - floor))
    return float(((energy - lowest) / left).max())


def energy_diagnostics(loss, solutions):
    """Energies and gradient norms of the solutions at the saved times."""

    def energies(theta, velocity):
        value, gradient = jax.value_and_grad(loss)(theta)
        return value, kinetic_energy(velocity, gradient), jnp.linalg.norm(gradient)

    violations, norms, finished = [], [], 0
    for solution in solutions:
        losses, kinetics, slopes = jax.vmap(energies)(*solution.ys)
        energy = kinetics + GRAVITY * losses
        violations.append(energy_violation(energy, losses))
        norms.append(float(slopes[-1]))
        finished += bool(jnp.isfinite(energy[-1]))
    return {
        "worst_energy_violation": max([0.0, *violations]),
        "rows_beyond_1e-2": sum(violation > 1e-2 for violation in violations),
        "gradient_norm": sum(norms) / len(norms),
        "finished": finished,
    }


def measure(problem, name, rows, times):
    """Time one solver and check the energies of its trajectories."""
    solver, rtol, atol, stages = SOLVERS[name]
    loss = make_loss(problem)
    compiled = make_solve(make_field(loss), jnp.asarray(problem["theta"]), solver, rtol, atol)
    velocities = jnp.asarray(problem["velocities"])[:rows]
    jax.block_until_ready(compiled(velocities[0], times * 1e-4).ys)
    cores, wall = time.process_time(), time.perf_counter()
    solutions = [jax.block_until_ready(compiled(v, times)) for v in velocities]
    cores, wall = time.process_time() - cores, time.perf_counter() - wall
    steps = sum(int(solution.stats["num_steps"]) for solution in solutions)
    return {
        "solver": name,
        "task": "dims",
        "rows": rows,
        "precision": "float64",
        "core_seconds_a_sample": cores / rows,
        "wall_seconds": wall,
        "evaluations": stages * steps / rows,
        **energy_diagnostics(loss, solutions),
        "versions": {"jax": jax.__version__, "diffrax": diffrax.__version__},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("--end", type=float, default=50.0)
    options = parser.parse_args()
    problem = load_file(options.problem)
    times = jnp.linspace(0, options.end, 201)
    records = []
    for name in SOLVERS:
        records.append(measure(problem, name, options.rows, times))
        options.result.write_text(json.dumps(records))


if __name__ == "__main__":
    main()
