"""Measure what settling does to draws of the Snelson network, and certify them.

    python benchmarks/energy_law.py rattle --rows 50 --compile --ends ends.safetensors
    python benchmarks/settling.py ends.safetensors --rows 50

Settles the end points of trajectories in the stiff directions (for the default time, and until the
gradient norm is a hundredth), certifies them, checks some certificates against dense Hessians, and
then descends fully to measure the remaining spread. The JSON file is written after each part, and
the full descent in portions; a second call continues it.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

import dims
from dims.sampling.settle import Settled
from dims_paper.snelson_network import load_problem

PORTION = 5


def spread(surface: dims.LossSurface, thetas: Tensor) -> dict[str, float]:
    """Standard deviation over draws of the predicted function, in the gap and in the data."""
    result = {}
    for name, low, high in (("gap", 1.6, 2.9), ("data", 3.2, 5.8)):
        grid = torch.linspace(low, high, 60, dtype=torch.float64).unsqueeze(-1)
        result[name] = float(surface.predict(thetas, grid).std(0).mean())
    return result


def describe(settled: Settled) -> dict[str, Any]:
    """A settled batch as JSON data."""
    return {
        "start_loss": settled.start_loss.tolist(),
        "loss": settled.loss.tolist(),
        "start_gradient_norm": settled.start_gradient_norm.tolist(),
        "gradient_norm": settled.gradient_norm.tolist(),
        "displacement": settled.displacement.tolist(),
        "evaluations": settled.evaluations.tolist(),
        "status": [status.name for status in settled.status],
    }


def certificates(surface: dims.LossSurface, thetas: Tensor) -> dict[str, Any]:
    """The certificates of some points as JSON data."""
    found = dims.certify(surface, thetas)
    return {
        "verdict": [verdict.name for verdict in found.verdict],
        "smallest_eigenvalue": found.smallest_eigenvalue.tolist(),
        "gain": found.gain.tolist(),
        "flat_curvature": found.flat_curvature.tolist(),
    }


def dense_eigenvalues(surface: dims.LossSurface, thetas: Tensor) -> list[float]:
    """λ_min of dense Hessians, the reference for the Lanczos values."""
    smallest = []
    for theta in thetas:
        basis = torch.eye(surface.size, dtype=theta.dtype)
        columns = [
            surface.grad_and_hvp(theta.expand(len(part), -1), part)[1] for part in basis.split(100)
        ]
        hessian = torch.cat(columns)
        smallest.append(float(torch.linalg.eigvalsh(0.5 * (hessian + hessian.T))[0]))
    return smallest


def full_descent(surface: dims.LossSurface, thetas: Tensor, parts: list[Any]) -> None:
    """Descend from the next portion of rows to the minimum."""
    start = PORTION * len(parts)
    settled = dims.settle(surface, thetas[start : start + PORTION], "full")
    parts.append({**describe(settled), "positions": settled.positions.tolist()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ends", type=Path)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--dense", type=int, default=5, help="rows with a dense Hessian")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/settling.json"))
    parser.add_argument("--work", type=Path, default=Path("settling_full.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    surface = load_problem().surface
    thetas = load_file(options.ends)["theta"][: options.rows]

    settled = dims.settle(surface, thetas)
    further = dims.settle(surface, thetas, max_time=math.inf)  # until ‖g‖/100
    result: dict[str, Any] = {
        "rows": len(thetas),
        "spread_before": spread(surface, thetas),
        "stiff": describe(settled),
        "spread_stiff": spread(surface, settled.positions),
        "hundredfold": describe(further),
        "spread_hundredfold": spread(surface, further.positions),
        "certificates_hundredfold": certificates(surface, further.positions),
        "certificates_before": certificates(surface, thetas),
        "certificates_stiff": certificates(surface, settled.positions),
        "dense_smallest_eigenvalue": dense_eigenvalues(surface, settled.positions[: options.dense]),
        "torch": torch.__version__,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result))

    parts: list[Any] = json.loads(options.work.read_text()) if options.work.exists() else []
    while PORTION * len(parts) < len(thetas):
        full_descent(surface, thetas, parts)
        options.work.write_text(json.dumps(parts))
        print(f"full descent: {PORTION * len(parts)} of {len(thetas)}", flush=True)
    ends = torch.tensor([row for part in parts for row in part["positions"]], dtype=torch.float64)
    result["full"] = {
        key: [value for part in parts for value in part[key]] for key in describe(settled)
    }
    result["spread_full"] = spread(surface, ends)
    result["certificates_full"] = certificates(surface, ends)
    options.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
