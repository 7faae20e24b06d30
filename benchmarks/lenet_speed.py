"""Time DiMS draws of LeNet on MNIST on a GPU, with 1 000 images or all 60 000.

    python benchmarks/lenet_speed.py --out results/benchmarks/lenet.json [--full] [--tf32]

LeNet with tanh and average pooling, K = 44 426; low-rank GGN curvature, η₀ = 0.1, t₁ = 50, 20 draws
in one batch. With all images the likelihood is scaled to 1 000 points. Needs DIMS_DATA, and a GPU
unless `--device cpu` is given.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dims
from dims_paper.datasets.images import Images, load_images
from dims_paper.training import lenet

FRICTION, END = 0.1, 50.0
STARTED = time.perf_counter()


def say(what: str) -> None:
    print(f"[{time.perf_counter() - STARTED:.0f} s] {what}", flush=True)


def load(dataset: str, split: str, device: str) -> Images:
    images = load_images(dataset, split)
    return Images(images.inputs.to(device), images.targets.to(device))


def train(images: Images, epochs: int, seed: int) -> nn.Module:
    device = images.inputs.device
    torch.manual_seed(seed)
    model = lenet().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images.inputs), device=device).split(128):
            optimiser.zero_grad()
            outputs = model(images.inputs[rows])
            nn.functional.cross_entropy(outputs, images.targets[rows]).backward()
            optimiser.step()
    return model.eval()


def subset(images: Images, count: int, seed: int) -> Images:
    """`count` images at random."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(images.inputs), generator=generator)[:count]
    chosen = chosen.to(images.inputs.device)
    return Images(images.inputs[chosen], images.targets[chosen])


def fit(model: nn.Module, images: Images) -> dims.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dims.NotAMinimumWarning)
        posterior = dims.fit(
            model,
            (images.inputs, images.targets),
            "classification",
            curvature="low_rank",
            effective_points=1000,
            tune=True,
        )
    say(f"fitted, prior precision {posterior.prior_precision:.3g}")
    return posterior


def timed_draws(posterior: dims.Posterior, count: int, seed: int) -> tuple[dims.Draws, float]:
    """Draws as the published runs make them (no preconditioning, no settling), and seconds."""
    on_gpu = posterior.map_parameters.device.type == "cuda"
    began = last = time.perf_counter()

    def progress(now: Any) -> None:
        nonlocal last
        if time.perf_counter() - last > 20:
            last = time.perf_counter()
            say(f"t = {now.mean_time:.2f}, T = {now.mean_kinetic_energy:.3g}, done {now.done}")

    draws = posterior.sample(
        count,
        "dims",
        friction=FRICTION,
        max_time=END,
        precondition=False,
        settle="none",
        certify=False,
        compile=on_gpu,
        seed=seed,
        progress=progress,
    )
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    say(f"{seconds:.1f} s, {draws.evaluations.double().mean():.0f} gradients")
    return draws, seconds


def scores(draws: dims.Draws, test: Images) -> dict[str, float]:
    """Accuracy and NLL: means over draws, and of the ensemble."""
    found = draws.predict(test.inputs).metrics(test.targets)
    return {
        f"{prefix}{metric}": float(found[kind][metric])
        for kind, prefix in (("per_sample", ""), ("ensemble", "ensemble_"))
        for metric in ("accuracy", "nll")
    }


def trained_network(posterior: dims.Posterior) -> dims.Draws:
    """The trained network as a single draw."""
    centre = posterior.map_parameters
    return dims.Draws(
        parameters=centre.unsqueeze(0),
        method="map",
        surface=posterior.surface,
        map_parameters=centre,
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train, fit, sample, predict, and collect times and metrics."""
    training, test = (load(options.dataset, split, options.device) for split in ("train", "test"))
    model = train(training, options.epochs, options.seed)
    say("trained")
    used = training if options.full else subset(training, 1000, options.seed)
    posterior = fit(model, used)
    seconds = []
    for _ in range(1 if options.full else 2):  # the second run is already compiled
        draws, elapsed = timed_draws(posterior, options.rows, options.seed)
        seconds.append(elapsed)
    if options.ends is not None:
        draws.save(options.ends)
    return {
        "dataset": options.dataset,
        "points": len(used.inputs),
        "parameters": posterior.surface.size,
        "rows": options.rows,
        "seconds": seconds,
        "seconds_a_sample": seconds[-1] / options.rows,
        "evaluations": draws.evaluations.tolist(),
        "energy_violation": draws.energy_violation.tolist(),
        "energy_balance": draws.energy_balance.tolist(),
        "status": [status.name if status else None for status in draws.status],
        "prior_precision": posterior.prior_precision,
        "dims": scores(draws, test),
        "map": scores(trained_network(posterior), test),
        "precision": "TF32 products" if options.tf32 else "float32",
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mnist", choices=("mnist", "fashion_mnist"))
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--full", action="store_true", help="all images, not 1 000 of them")
    parser.add_argument("--tf32", action="store_true", help="use TF32 for matrix products")
    parser.add_argument("--ends", type=Path, default=None, help="file for the draws")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = options.tf32
    result = measure(options)
    if options.device == "cuda":
        result["peak_memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
        result["machine"] = torch.cuda.get_device_name()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1))
    say(json.dumps({key: result[key] for key in ("seconds", "dims", "map")}))


if __name__ == "__main__":
    main()
