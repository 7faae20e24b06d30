"""Time the curvature against laplace-torch, and the low-rank curvature against plain products.

    python benchmarks/curvature_speed.py --out results/benchmarks/curvature.json

Uses one thread. The full Gauss-Newton matrix and its evidence are computed for a classifier with
K = 2 115 parameters on 1 000 points, by dims and by every installed backend of laplace-torch. The
low-rank curvature (rank 100) is computed for LeNet, K = 44 426, on 1 000 random images, and
compared with 150 Hessian-vector products.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dims
from dims.curvature import fit_curvature
from dims.curvature.evidence import log_marginal_likelihood
from dims_paper.training import lenet

REPEATS = 3
POINTS = 1000


def best(call: Callable[[], Any]) -> float:
    """Core-seconds of the fastest of a few calls; other processes can only slow a call down."""
    seconds = math.inf
    for _ in range(REPEATS):
        began = time.process_time()
        call()
        seconds = min(seconds, time.process_time() - began)
    return seconds


def classifier() -> tuple[nn.Module, Tensor, Tensor]:
    """An untrained network with random data."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 40), nn.Tanh(), nn.Linear(40, 3)
    )
    return model.eval(), torch.randn(POINTS, 20), torch.randint(0, 3, (POINTS,))


def full() -> dict[str, float]:
    """Core-seconds of the full curvature and its evidence."""
    import laplace
    from laplace import curvature as backends

    model, inputs, targets = classifier()
    surface = dims.LossSurface(model, (inputs, targets), "classification", prior_precision=1.0)

    def ours() -> None:
        curvature = fit_curvature(surface, surface.initial, "full")
        log_marginal_likelihood(surface, surface.initial, curvature)

    seconds = {"dims": best(ours)}
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(inputs, targets), batch_size=POINTS
    )
    for name in ("CurvlinopsGGN", "BackPackGGN", "AsdlGGN", "AsdfghjklGGN"):
        backend = getattr(backends, name, None)
        if backend is None:
            continue

        def theirs(backend: Any = backend) -> None:
            fitted = laplace.Laplace(
                model, "classification", "all", "full", backend=backend, prior_precision=1.0
            )
            fitted.fit(loader)
            fitted.log_marginal_likelihood()

        try:
            seconds[f"laplace-torch, {name}"] = best(theirs)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")
    return seconds


def low_rank() -> dict[str, float]:
    """Core-seconds of the low-rank curvature and of products alone."""
    torch.manual_seed(0)
    model = lenet().eval()
    data = (torch.randn(POINTS, 1, 28, 28), torch.randint(0, 10, (POINTS,)))
    surface = dims.LossSurface(model, data, "classification", prior_precision=1.0)
    theta = surface.initial.unsqueeze(0)
    vector = torch.randn_like(theta)
    product = best(lambda: surface.grad_and_hvp(theta, vector))
    began = time.process_time()
    fit_curvature(surface, surface.initial, "low_rank", rank=100)
    return {"rank 100": time.process_time() - began, "150 products": 150 * product}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    result = {"core_seconds": {"full": full(), "low rank": low_rank()}, "torch": torch.__version__}
    options.out.write_text(json.dumps(result, indent=1))
    print(json.dumps(result["core_seconds"], indent=1))


if __name__ == "__main__":
    main()
