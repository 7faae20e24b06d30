"""Does a solver obey Lemma 1? Compare rattle with the reference solver on the Snelson network.

    python benchmarks/energy_law.py rattle --rows 20 --out results/benchmarks/energy_law
    python benchmarks/energy_law.py rattle --metric moving --rows 200 --name moving
    python benchmarks/energy_law.py rattle --metric moving --rows 24 --with rank=40 --name rank_40
    python benchmarks/energy_law.py reference --rows 3 --out results/benchmarks/energy_law

The reference solver is torchdiffeq's dopri5 at rtol 1e-7 and atol 1e-6, one trajectory at a time,
as in the paper. Each solver writes one JSON file; docs/solvers.md shows them. Needs DIMS_DATA.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

import dims
from dims.mechanics.dynamics import kinetic_energy
from dims_paper.snelson_network import load_problem
from speed.solvers import ATOL, RTOL, EquationOfMotion

TIMES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0)
DYNAMICS = dims.dissipative(gravity=1.0, friction=0.1)


def run_rattle(
    rows: int,
    seed: int,
    tolerance: float | None,
    dtype: torch.dtype,
    compiled: bool,
    device: str,
    ends: Path | None,
    metric: str | dims.MovingMetric,
) -> dict[str, Any]:
    """Integrate all rows with rattle and collect its diagnostics."""
    problem = load_problem(dtype, device)
    surface, velocities = problem.surface, problem.velocities(rows, seed)
    started = time.perf_counter()
    path = dims.integrate(
        surface,
        surface.initial,
        velocities,
        dynamics=DYNAMICS,
        tolerance=tolerance,
        save_at=TIMES,
        max_time=TIMES[-1],
        compile=compiled,
        metric=metric,
    )
    wall = time.perf_counter() - started
    lost = path.dissipated[-1] - path.dissipated[0]
    late = path.energy[0] - path.energy[-1] - lost
    spreads = spread(surface, path.end)
    if ends is not None:
        save_file({"theta": path.end.cpu().contiguous()}, ends)
    return {
        "seconds": wall,
        "steps": path.steps.tolist(),
        "step_error": path.step_error.tolist(),
        "status": [status.name for status in path.status],
        "start_energy": path.start_energy.tolist(),
        "energy": path.energy.T.tolist(),
        "loss": path.loss[-1].tolist(),
        "gradient_norm": path.gradient_norm[-1].tolist(),
        "energy_violation": path.energy_violation.tolist(),
        "balance_percent": (100 * path.energy_balance / path.dissipated[-1]).tolist(),
        "late_balance_percent": (100 * late / lost).tolist(),
        "evaluations": path.evaluations.tolist(),
        "rejections": path.rejections.tolist(),
        "refreshes": path.refreshes.tolist(),
        "gradient_equivalents": path.gradient_equivalents.tolist(),
        "arc_length": path.arc_length.tolist(),
        "metric_length": path.metric_length.tolist(),
        "distance": (path.end - surface.initial).norm(dim=-1).tolist(),
        **spreads,
    }


def spread(surface: dims.LossSurface, thetas: Tensor) -> dict[str, Any]:
    """Mean absolute deviation of each draw from the mean function, in the gap and in the data."""
    result = {}
    for name, low, high in (("gap", 1.6, 2.9), ("data", 3.2, 5.8)):
        grid = torch.linspace(low, high, 60).unsqueeze(-1)
        outputs = surface.predict(thetas, grid).squeeze(-1).double()
        result[f"spread_{name}"] = float(outputs.std(0).mean())
        away = outputs - outputs.mean(0)
        result[f"deviation_{name}"] = away.abs().mean(1).tolist()
        result[f"rms_{name}"] = away.square().mean(1).sqrt().tolist()
    return result


def run_reference(rows: int, seed: int) -> dict[str, Any]:
    """Integrate one row after the other with the reference solver."""
    from torchdiffeq import odeint

    problem = load_problem()
    surface, velocities = problem.surface, problem.velocities(rows, seed)
    size, start = surface.size, surface.initial
    energies, evaluations, seconds, ends = [], [], [], []
    for velocity in velocities:
        motion = EquationOfMotion(surface, DYNAMICS)
        times = torch.tensor((0.0, *TIMES), dtype=torch.float64)
        began = time.perf_counter()
        states = odeint(
            motion.one, torch.cat([start, velocity]), times, method="dopri5", rtol=RTOL, atol=ATOL
        )
        seconds.append(time.perf_counter() - began)
        loss, gradient = surface.value_and_grad(states[:, :size])
        energy = loss + kinetic_energy(states[:, size:], gradient)
        energies.append(energy[1:].tolist())
        evaluations.append(motion.rows)
        ends.append((float(loss[-1]), float(gradient[-1].norm())))
        print(
            f"reference: {motion.rows} evaluations, E {[round(e, 1) for e in energies[-1]]}",
            flush=True,
        )
    return {
        "seconds": seconds,
        "energy": energies,
        "evaluations": evaluations,
        "loss": [end[0] for end in ends],
        "gradient_norm": [end[1] for end in ends],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("solver", choices=("rattle", "reference"))
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=None, help="tolerance of rattle")
    parser.add_argument("--float32", action="store_true", help="rattle in single precision")
    parser.add_argument("--metric", default="euclidean", choices=("euclidean", "moving"))
    parser.add_argument(
        "--with", dest="settings", nargs="*", default=[], help="settings of the moving metric"
    )
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ends", type=Path, default=None, help="file for the end points")
    parser.add_argument("--name", default=None)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/energy_law"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    dtype = torch.float32 if options.float32 else torch.float64
    metric = options.metric
    if options.settings:
        given = dict(setting.split("=") for setting in options.settings)
        metric = dims.MovingMetric(**{name: json.loads(value) for name, value in given.items()})
    if options.solver == "rattle":
        result = run_rattle(
            options.rows,
            options.seed,
            options.tolerance,
            dtype,
            options.compile,
            options.device,
            options.ends,
            metric,
        )
    else:
        result = run_reference(options.rows, options.seed)
    result["settings"] = {
        "solver": options.solver,
        "rows": options.rows,
        "seed": options.seed,
        "tolerance": options.tolerance,
        "metric": str(metric),
        "dtype": str(dtype),
        "times": TIMES,
        "torch": torch.__version__,
        "dims": dims.__version__,
        "machine": f"{platform.machine()}, one thread"
        if options.device == "cpu"
        else torch.cuda.get_device_name(),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.name or options.solver
    (options.out / f"{name}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
