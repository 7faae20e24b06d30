"""LeNet on MNIST on a GPU: seconds a sample, on 1 000 images and on all 60 000.

    python benchmarks/lenet.py --out results/benchmarks/lenet.json [--full] [--tf32]

K = 44 426, tanh, average pooling; low-rank GGN velocities, η₀ = 0.1, t₁ = 50, 20 rows at once.
On all images the likelihood counts as 1 000 points. Needs DIMS_DATA and CUDA.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import dims
from dims_paper.datasets.images import Images, load_images
from dims_paper.lenet import lenet

DEVICE = "cuda"
DYNAMICS = dims.dissipative(gravity=1.0, friction=0.1)
TIMES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0)


def train(images: Images, epochs: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = lenet().to(DEVICE)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images.inputs), device=DEVICE).split(128):
            optimiser.zero_grad()
            outputs = model(images.inputs[rows])
            nn.functional.cross_entropy(outputs, images.targets[rows]).backward()
            optimiser.step()
    return model.eval()


def score(log_probabilities: Tensor, targets: Tensor) -> dict[str, float]:
    """Of the average draw and of the ensemble."""
    probabilities = log_probabilities.exp()
    mean = probabilities.mean(0)
    rows = torch.arange(len(targets), device=targets.device)
    return {
        "accuracy": float((probabilities.argmax(-1) == targets).double().mean()),
        "nll": float(-log_probabilities[:, rows, targets].mean()),
        "ensemble_accuracy": float((mean.argmax(-1) == targets).double().mean()),
        "ensemble_nll": float(-mean[rows, targets].log().mean()),
    }


def follow(
    surface: dims.LossSurface, velocities: Tensor, say: Any
) -> tuple[dims.Trajectories, float]:
    torch.cuda.synchronize()
    began = last = time.perf_counter()

    def progress(now: Any) -> None:
        nonlocal last
        if time.perf_counter() - last > 20:
            last = time.perf_counter()
            say(f"t = {now.mean_time:.2f}, T = {now.mean_kinetic_energy:.3g}, done {now.done}")

    path = dims.integrate(
        surface,
        surface.initial,
        velocities,
        dynamics=DYNAMICS,
        max_time=TIMES[-1],
        save_at=TIMES,
        compile=True,
        progress=progress,
    )
    torch.cuda.synchronize()
    return path, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mnist", choices=("mnist", "fashion_mnist"))
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="all images, not 1 000 of them")
    parser.add_argument("--tf32", action="store_true", help="tensor cores for products of matrices")
    parser.add_argument("--ends", type=Path, default=None, help="file for network and draws")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = options.tf32
    started = time.perf_counter()

    def say(what: str) -> None:
        print(f"[{time.perf_counter() - started:.0f} s] {what}", flush=True)

    def load(split: str) -> Images:
        images = load_images(options.dataset, split)
        return Images(images.inputs.to(DEVICE), images.targets.to(DEVICE))

    training, test = load("train"), load("test")
    model = train(training, options.epochs, options.seed)
    say("trained")
    inputs, targets = training.inputs, training.targets
    if not options.full:
        generator = torch.Generator().manual_seed(options.seed)
        chosen = torch.randperm(len(inputs), generator=generator)[:1000].to(DEVICE)
        inputs, targets = inputs[chosen], targets[chosen]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dims.NotAMinimumWarning)
        posterior = dims.fit(
            model,
            (inputs, targets),
            "classification",
            curvature="low_rank",
            effective_points=1000,
        )
    say(f"fitted, prior precision {posterior.prior_precision:.3g}")
    surface = posterior.surface
    velocities = posterior.velocities(options.rows, seed=options.seed)
    runs = []
    for _ in range(1 if options.full else 2):  # the second is warm
        path, seconds = follow(surface, velocities, say)
        runs.append(seconds)
        say(f"{seconds:.1f} s, {path.evaluations.double().mean():.0f} gradients")
    draws = torch.log_softmax(surface.predict(path.end, test.inputs), -1)
    alone = torch.log_softmax(surface.predict(surface.initial.unsqueeze(0), test.inputs), -1)
    result = {
        "dataset": options.dataset,
        "points": len(inputs),
        "parameters": surface.size,
        "rows": options.rows,
        "seconds": runs,
        "seconds_a_sample": runs[-1] / options.rows,
        "evaluations": path.evaluations.tolist(),
        "energy_violation": path.energy_violation.tolist(),
        "balance_percent": (100 * path.energy_balance / path.dissipated[-1]).tolist(),
        "energy": path.energy.mean(1).tolist(),
        "status": [status.name for status in path.status],
        "prior_precision": posterior.prior_precision,
        "dims": score(draws, test.targets),
        "map": score(alone, test.targets),
        "peak_memory_gb": torch.cuda.max_memory_allocated() / 1e9,
        "precision": "TF32 products" if options.tf32 else "float32",
        "machine": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1))
    say(json.dumps({k: result[k] for k in ("seconds", "dims", "map", "peak_memory_gb")}))
    if options.ends is not None:
        named = {f"model.{k}": v.cpu().contiguous() for k, v in model.state_dict().items()}
        save_file({**named, "draws": path.end.cpu().contiguous()}, options.ends)


if __name__ == "__main__":
    main()
