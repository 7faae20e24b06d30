"""LeNet on all images of Fashion-MNIST with the moving metric: seconds, gradients and scores.

    python benchmarks/moving_metric_lenet.py --max-time 5 50 --out moving_lenet.json

The network, its prior, the 20 perturbations and the scores are those of the stored euclidean run
(docs/reproduction/images_full.md, seed 0). Seconds are without compilation. Needs DIMS_DATA and a
GPU; the trained network and the curvature are kept in --folder.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dims
from dims.model.torch_support.tf32 import float32_products
from dims_paper.experiments.images.motion import InitialState, initial_state
from dims_paper.experiments.images.run import ImageRun
from dims_paper.experiments.images.settings import FullSettings, ImageSettings
from dims_paper.scoring import Evaluation, draws_of

TIMES = (1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)


def prepared(options: argparse.Namespace) -> tuple[ImageRun, InitialState]:
    """The stored run's network and start."""
    settings = ImageSettings(dataset="fashion_mnist", device=options.device, seed=options.seed)
    run = ImageRun(settings, options.folder, f"{settings.name}_full", None)
    full = FullSettings()
    start = initial_state(
        options.folder / "draws" / f"{run.name}_initial.safetensors",
        run.trained,
        run.some(None),
        full.draws,
        options.seed,
        curvature="low_rank",
        rank=full.rank,
        effective_points=full.effective_points,
    )
    return run, start


def timed(start: InitialState, surface: dims.LossSurface, end: float, metric: Any) -> Any:
    """The trajectories, and the seconds that they took."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    path = dims.integrate(
        surface,
        start.position,
        start.velocities,
        dynamics=dims.dissipative(1.0, 0.1),
        max_time=end,
        save_at=[when for when in TIMES if when <= end],
        metric=metric,
    )
    torch.cuda.synchronize()
    return path, time.perf_counter() - began


def scores(evaluation: Evaluation, surface: dims.LossSurface, thetas: Tensor) -> dict[str, Any]:
    """Test and OOD scores of draws at one time."""
    row = evaluation.row("DiMS", draws_of(surface, thetas.contiguous()))
    return {"scores": row.scores, "ood": row.ood}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-time", type=float, nargs="+", default=[5.0])
    parser.add_argument("--metric", default="moving", choices=("euclidean", "moving"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", type=Path, default=Path("runs/mnist"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with float32_products():
        run, start = prepared(options)
        surface = run.fast(start.surface)
        rows = start.position.expand(len(start.velocities), -1).contiguous()
        began = time.perf_counter()
        surface.value_and_grad(rows)
        torch.cuda.synchronize()
        compilation = time.perf_counter() - began
        records = []
        for end in options.max_time:
            path, seconds = timed(start, surface, end, options.metric)
            record: dict[str, Any] = {
                "metric": options.metric,
                "max_time": end,
                "seconds": seconds,
                "compilation_seconds": compilation,
                "evaluations": path.evaluations.tolist(),
                "refreshes": path.refreshes.tolist(),
                "gradient_equivalents": path.gradient_equivalents.tolist(),
                "energy_violation": path.energy_violation.tolist(),
                "balance": (path.energy_balance / path.dissipated[-1]).tolist(),
                "late_balance": late_balance(path).tolist(),
                "loss": path.loss.mean(1).tolist(),
                "kinetic_energy": path.kinetic_energy.mean(1).tolist(),
                "arc_length": path.arc_length.tolist(),
                "metric_length": path.metric_length.tolist(),
                "status": [status.name for status in path.status],
                "machine": torch.cuda.get_device_name(),
            }
            records.append(record)
            options.out.write_text(json.dumps(records))
            record["at"] = {
                f"{when:g}": scores(run.evaluation, start.surface, thetas)
                for when, thetas in zip(path.times.tolist(), path.positions, strict=True)
            }
            options.out.write_text(json.dumps(records))
            print(f"t = {end:g}: {seconds:.1f} s, {path.evaluations.double().mean():.0f} gradients")


def late_balance(path: dims.Trajectories) -> Tensor:
    """What is missing in the balance from t = 1 on, as a part of what friction took then."""
    lost = path.dissipated[-1] - path.dissipated[0]
    return (path.energy[0] - path.energy[-1] - lost) / lost


if __name__ == "__main__":
    main()
