"""Time one run in this process and on two Ray workers of this machine.

    python benchmarks/ray_speed.py

Appends a record to results/benchmarks/engine.json: seconds, the speed-up, whether the chunks are
identical, and the load of the machine. Earlier records stay in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

import dims

RESULT = Path(__file__).parents[1] / "results" / "benchmarks" / "engine.json"


def problem() -> dims.Posterior:
    """A network large enough for its gradients to dominate the time."""
    torch.manual_seed(0)
    inputs = torch.linspace(-2, 2, 200).unsqueeze(-1)
    targets = (3 * inputs).sin() + 0.1 * torch.randn(200, 1)
    layers = [nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1)]
    model = nn.Sequential(*layers)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(500):
        optimiser.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        optimiser.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dims.NotAMinimumWarning)
        return dims.fit(model, (inputs, targets), "regression", tune=True)


def timed(posterior: dims.Posterior, store: Path, engine: dims.Ray | None, chunks: int) -> float:
    began = time.monotonic()
    posterior.sample(
        20 * chunks, "rla", store=store, chunk_size=20, engine=engine, max_time=0.1, progress=False
    )
    return time.monotonic() - began


def checksums(store: Path) -> list[str]:
    sums = []
    for path in sorted(store.glob("chunk_*")):
        with safe_open(path, framework="pt") as file:
            sums.append(file.metadata()["checksum"])
    return sums


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=16)
    chunks = parser.parse_args().chunks
    torch.set_num_threads(1)
    posterior = problem()
    # By default Ray gives its workers a lower priority; here both runs get the same one.
    niceness = os.environ.setdefault("RAY_worker_niceness", str(os.nice(0)))
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        alone, cluster = Path(folder) / "alone", Path(folder) / "cluster"
        one = timed(posterior, alone, None, chunks)
        began = time.monotonic()
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
        start = time.monotonic() - began
        two = timed(posterior, cluster, dims.Ray(), chunks)
        ray.shutdown()
        same = checksums(alone) == checksums(cluster)
    record = {
        "chunks": chunks,
        "draws": 20 * chunks,
        "seconds_in_process": round(one, 1),
        "seconds_two_workers": round(two, 1),
        "seconds_to_start_ray": round(start, 1),
        "speed_up": round(one / two, 2),
        "speed_up_with_start": round(one / (two + start), 2),
        "same_chunks": same,
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "worker_niceness": niceness,
        "cores": os.cpu_count(),
    }
    runs = json.loads(RESULT.read_text())["runs"] if RESULT.exists() else []
    RESULT.write_text(json.dumps({"runs": [*runs, record]}, indent=1) + "\n")
    print(record)


if __name__ == "__main__":
    main()
