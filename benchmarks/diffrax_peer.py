"""diffrax on the Snelson problem, started by `dims bench --diffrax PYTHON`.

    python benchmarks/diffrax_peer.py PROBLEM.safetensors RESULT.json --rows 3

Runs in an environment of its own with jax, diffrax and safetensors, which need not have torch.
One thread, one trajectory at a time, compiled before the clock starts.
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
SOLVERS = {
    "diffrax Dopri5": (diffrax.Dopri5, 1e-7, 1e-6, 6),
    "diffrax Dopri8 at 1e-9": (diffrax.Dopri8, 1e-9, 1e-9, 13),
}
MOST_STEPS = 10_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("--end", type=float, default=50.0)
    options = parser.parse_args()
    problem = load_file(options.problem)
    inputs, targets = problem["inputs"], problem["targets"]
    noise, prior = float(problem["noise"][0]), float(problem["prior"][0])
    gravity, friction = 1.0, 0.1

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

    gradient = jax.grad(loss)

    def field(_, state, __):
        theta, velocity = state
        slope, product = jax.jvp(gradient, (theta,), (velocity,))
        kinetic = 0.5 * (velocity @ velocity + (slope @ velocity) ** 2)
        push = (velocity @ product + gravity) / (1 + slope @ slope)
        return velocity, -push * slope - friction * jnp.sqrt(kinetic) * velocity

    def energies(theta, velocity):
        slope = gradient(theta)
        kinetic = 0.5 * (velocity @ velocity + (slope @ velocity) ** 2)
        return loss(theta), kinetic, jnp.linalg.norm(slope)

    times = jnp.linspace(0, options.end, 201)
    records = []
    for name, (solver, rtol, atol, stages) in SOLVERS.items():

        def solve(velocity, times, solver=solver, rtol=rtol, atol=atol):
            return diffrax.diffeqsolve(
                diffrax.ODETerm(field),
                solver(),
                t0=0.0,
                t1=times[-1],
                dt0=None,
                y0=(jnp.asarray(problem["theta"]), velocity),
                saveat=diffrax.SaveAt(ts=times),
                stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
                max_steps=MOST_STEPS,
                adjoint=diffrax.ForwardMode(),
                throw=False,
            )

        compiled = jax.jit(solve)
        velocities = jnp.asarray(problem["velocities"])[: options.rows]
        jax.block_until_ready(compiled(velocities[0], times * 1e-4).ys)
        cores, wall = time.process_time(), time.perf_counter()
        solutions = [jax.block_until_ready(compiled(v, times)) for v in velocities]
        cores, wall = time.process_time() - cores, time.perf_counter() - wall
        worst, beyond, norms, steps, finished = 0.0, 0, [], [], 0
        for solution in solutions:
            losses, kinetics, slopes = jax.vmap(energies)(*solution.ys)
            energy = kinetics + gravity * losses
            lowest = jax.lax.cummin(energy)
            floor = gravity * losses.min()
            left = jnp.maximum(lowest - floor, 1e-4 * (energy[0] - floor))
            violation = float(((energy - lowest) / left).max())
            worst, beyond = max(worst, violation), beyond + (violation > 1e-2)
            norms.append(float(slopes[-1]))
            steps.append(int(solution.stats["num_steps"]))
            finished += bool(jnp.isfinite(energy[-1]))
        records.append(
            {
                "peer": name,
                "task": "dims",
                "rows": options.rows,
                "precision": "float64",
                "core_seconds_a_sample": cores / options.rows,
                "wall_seconds": wall,
                "evaluations": stages * sum(steps) / options.rows,
                "worst_energy_violation": worst,
                "rows_beyond_1e-2": int(beyond),
                "gradient_norm": sum(norms) / options.rows,
                "finished": finished,
                "versions": {"jax": jax.__version__, "diffrax": diffrax.__version__},
            }
        )
        options.result.write_text(json.dumps(records))


if __name__ == "__main__":
    main()
