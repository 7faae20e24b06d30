"""Time all solvers in one run, from the same start velocities, into one JSON file."""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from dims.model.training_data import map_inputs
from dims.sampling.files import write_text_atomically
from dims_paper.snelson_network import load_problem
from speed.scaling import gradient_share, scaling
from speed.solvers import SOLVERS, TASKS, measure

__all__ = ["BenchSettings", "quick_settings", "run_bench"]

DIFFRAX_PROGRAM = Path(__file__).parents[1] / "diffrax_speed.py"


@dataclass(frozen=True)
class BenchSettings:
    """`rows` trajectories for rattle, `slow_rows` for solvers that take minutes per trajectory."""

    rows: int = 100
    slow_rows: int = 3
    seed: int = 2024
    solvers: tuple[str, ...] = tuple(SOLVERS)
    tasks: tuple[str, ...] = tuple(TASKS)
    diffrax_python: Path | None = None  # Python of an environment with jax and diffrax
    device: str = "cpu"
    scaling: bool = True
    fraction: float = 1.0  # of the full trajectory


def quick_settings(settings: BenchSettings) -> BenchSettings:
    """A minute or two: only rattle in float32, on the first fiftieth of each trajectory."""
    return replace(
        settings, rows=16, solvers=("rattle",), tasks=("dims",), scaling=False, fraction=0.02
    )


def run_bench(
    settings: BenchSettings, out: Path, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Measure what the file does not contain yet, and write it after every measurement."""
    say = report or (lambda _: None)
    result: dict[str, Any] = {"machine": _machine(settings.device), "records": []}
    if out.exists():
        result = json.loads(out.read_text())
    done = {(record["solver"], record["task"]) for record in result["records"]}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for task in settings.tasks:
            for solver in settings.solvers:
                if (solver, task) in done:
                    continue
                rows = settings.rows if solver.startswith("rattle") else settings.slow_rows
                say(f"{solver}, {task}: {rows} trajectories")
                record = measure(
                    solver, task, rows, settings.seed, settings.device, settings.fraction
                )
                result["records"].append({**record, "peak_memory_mb": _peak_memory()})
                _write(out, result)
        if settings.diffrax_python and not any("diffrax" in solver for solver, _ in done):
            say("diffrax")
            result["records"] += _diffrax(settings)
            _write(out, result)
        if settings.scaling and "scaling" not in result:
            say("scaling in rows, points and parameters")
            result["scaling"] = scaling(settings.device)
            result["gradient_share"] = gradient_share(settings.rows, settings.device)
            _write(out, result)
    finally:
        torch.set_num_threads(threads)
    return result


def _write(out: Path, result: dict[str, Any]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(out, json.dumps(result, indent=1))


def _diffrax(settings: BenchSettings) -> list[dict[str, Any]]:
    """Run diffrax in its own environment on the same problem."""
    if not DIFFRAX_PROGRAM.exists():
        raise FileNotFoundError(f"{DIFFRAX_PROGRAM}: not found; run from a clone of the repository")
    problem = load_problem()
    tensors = {
        "theta": problem.surface.initial,
        "velocities": problem.velocities(settings.slow_rows, settings.seed),
        "targets": problem.surface.data.targets.contiguous(),
        "noise": torch.tensor([problem.noise], dtype=torch.float64),
        "prior": torch.tensor([problem.prior], dtype=torch.float64),
    }
    map_inputs(lambda x: tensors.__setitem__("inputs", x.contiguous()), problem.surface.data.inputs)
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "problem.safetensors", Path(folder) / "result.json"
        save_file(tensors, given)
        command = [str(settings.diffrax_python), str(DIFFRAX_PROGRAM), str(given), str(found)]
        subprocess.run([*command, "--rows", str(settings.slow_rows)], check=True)
        return list(json.loads(found.read_text()))


def _machine(device: str) -> dict[str, str]:
    name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, one thread"
    return {"device": name, "torch": torch.__version__, "python": platform.python_version()}


def _peak_memory() -> float:
    """Peak memory of the process in MB; on a GPU that of torch."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
