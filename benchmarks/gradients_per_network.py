"""Count the gradients per trajectory on Snelson networks from several training runs.

    python benchmarks/gradients_per_network.py --kept runs/networks --out networks.json

The networks are trained as in the paper, with dropout, and tuned by the evidence. Sixty
trajectories of each run to t₁ = 50 with η₀ = 0.1 in float32 on one core. Networks in the folder
`kept` are not trained again, and seeds in the output file are not measured again. Needs DIMS_DATA.
"""

from __future__ import annotations

import argparse
import json
import platform
from functools import partial
from pathlib import Path
from typing import Any

import torch

import dims
from dims.model.likelihoods import Gaussian
from dims_paper.cache import kept_network
from dims_paper.experiments.snelson import SnelsonSettings, problem_of
from speed.solvers import TASKS

ROWS, VELOCITY_SEED = 60, 12345
DYNAMICS, END = TASKS["dims"]
TIMES = (10.0, END)


def follow(seed: int, kept: Path) -> dict[str, Any]:
    """Train the network of one seed, or load it, and integrate its trajectories."""
    problem = problem_of(SnelsonSettings(seed=seed))
    task = problem.task
    path = kept / f"snelson_{seed}.safetensors"
    model = kept_network(path, partial(task.fresh, seed), partial(task.train, seed))
    posterior = problem.posterior(model)
    assert posterior.noise_std is not None
    points = (task.inputs.float(), task.targets.float())
    surface = dims.LossSurface(
        model.float(), points, Gaussian(posterior.noise_std), posterior.prior_precision
    )
    motion = dims.integrate(
        surface,
        posterior.map_parameters.float(),
        posterior.perturbations(ROWS, VELOCITY_SEED).float(),
        dynamics=DYNAMICS,
        max_time=END,
        save_at=TIMES,
        compile=True,
    )
    gradients = motion.evaluations.double()
    energy = (motion.kinetic_energy + motion.loss).mean(-1)
    return {
        "seed": seed,
        "noise_std": float(posterior.noise_std),
        "gradient_norm": float(posterior.gradient_norm),
        "gradients": float(gradients.mean()),
        "error": float(gradients.std() / ROWS**0.5),
        "median": float(gradients.median()),
        "most": float(gradients.max()),
        "worst_energy_violation": float(motion.energy_violation.max()),
        "energy": dict(zip(map(str, TIMES), energy[-len(TIMES) :].tolist(), strict=True)),
        "finished": sum(status.name == "FINISHED" for status in motion.status),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--kept", type=Path, required=True, help="folder of trained networks")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    result: dict[str, Any] = {"machine": platform.machine(), "torch": torch.__version__}
    result |= {"rows": ROWS, "networks": []}
    if options.out.exists():
        result = json.loads(options.out.read_text())
    measured = {network["seed"] for network in result["networks"]}
    for seed in sorted(set(options.seeds) - measured):
        result["networks"].append(follow(seed, options.kept))
        print(result["networks"][-1], flush=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
