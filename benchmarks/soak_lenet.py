"""Soak test of a real network: LeNet on 1 000 images, run after run through stores for an hour.

    python benchmarks/soak_lenet.py --minutes 60

Each round samples two draws with the default metric into a new store. Rounds with the same seed
must write the same bytes. Memory, open files and processor time are recorded after each round.
Needs DIMS_DATA. Writes results/benchmarks/soak_lenet.json and docs/images/soak.png; `--redraw`
draws the figure again from the file.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

import dims
from dims.commands.pages.style import COLOURS, figure_style
from lenet_speed import load, subset, train
from soak import ROOT, resident

FIGURE = ROOT / "docs" / "images" / "soak.png"
RESULT = ROOT / "results" / "benchmarks" / "soak_lenet.json"
IMAGES, DRAWS, CHUNK, SEEDS = 1000, 2, 1, 3
HOW = {"friction": 1.0, "max_time": 0.02, "settle": "none", "certify": False}


def fitted() -> dims.Posterior:
    """LeNet, trained on the images that it is then sampled on."""
    images = subset(load("mnist", "train", "cpu"), IMAGES, seed=0)
    model = train(images, epochs=20, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dims.NotAMinimumWarning)  # the motion is what is watched
        return dims.fit(
            model,
            (images.inputs, images.targets),
            "classification",
            curvature="diagonal",
            prior_precision=10.0,
        )


def in_use() -> float:
    """Resident memory in MB without what the allocator keeps for later, which hides small leaks."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return round(resident(), 1)


def one_round(posterior: dims.Posterior, seed: int) -> tuple[dict[str, Any], str]:
    """One run in a store of its own: what it took, and the sha256 of its chunks."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run"
        made = posterior.sample(
            DRAWS, store=store, chunk_size=CHUNK, seed=seed, progress=False, **HOW
        )
        files = sorted(store.glob("chunk_*.safetensors"))
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    gradients = int(made.evaluations.sum())
    failed = sum(status is not None and not status.ok for status in made.status)
    row = {"seed": seed, "gradients": gradients, "failed": failed}
    row["cpu_seconds"] = round(time.process_time() - began, 2)
    return row, digest


def soak(minutes: float, out: Path) -> dict[str, Any]:
    """Rounds until the time is over; the file is written after each."""
    torch.set_num_threads(1)
    posterior = fitted()
    began, rows, digests = time.monotonic(), [], {}
    while not rows or time.monotonic() - began < 60 * minutes:
        seed = len(rows) % SEEDS
        row, digest = one_round(posterior, seed)
        row |= {
            "minutes": round((time.monotonic() - began) / 60, 2),
            "MB": round(resident(), 1),
            "MB_in_use": in_use(),
            "open_files": len(os.listdir("/proc/self/fd")),
            "same_bytes": digests.setdefault(seed, digest) == digest,
        }
        rows.append(row)
        record = summary(rows) | {"parameters": posterior.surface.size, "rounds": rows}
        out.write_text(json.dumps(record, indent=1) + "\n")
    return record


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The first and the last third of the rounds side by side."""
    third = max(1, len(rows) // 3)
    parts = {"first_third": rows[:third], "last_third": rows[-third:]}
    return {
        "images": IMAGES,
        "draws": DRAWS * len(rows),
        "gradients": sum(row["gradients"] for row in rows),
        "failed": sum(row["failed"] for row in rows),
        "minutes": rows[-1]["minutes"],
        "same_bytes": all(row["same_bytes"] for row in rows),
        **{
            name: {
                "MB": round(statistics.median(row["MB"] for row in part), 1),
                "MB_in_use": round(statistics.median(row["MB_in_use"] for row in part), 1),
                "open_files": statistics.median(row["open_files"] for row in part),
                "cpu_seconds_a_draw": round(
                    statistics.median(row["cpu_seconds"] for row in part) / DRAWS, 3
                ),
            }
            for name, part in parts.items()
        },
    }


def draw(record: dict[str, Any]) -> None:
    """Memory, open files and processor time against the clock."""
    rows = record["rounds"]
    shown = {
        "memory in use [MB]": [row["MB_in_use"] for row in rows],
        "open files": [row["open_files"] for row in rows],
        "CPU seconds a draw": [row["cpu_seconds"] / DRAWS for row in rows],
    }
    with figure_style():
        import matplotlib.pyplot as plt

        drawn, axes = plt.subplots(1, 3, figsize=(8.4, 2.5), layout="constrained")
        for axis, (label, values) in zip(axes, shown.items(), strict=True):
            times = [row["minutes"] for row in rows]
            axis.plot(times, values, ".-", color=COLOURS["dims"], linewidth=0.8)
            axis.set_ylim(0, 1.25 * max(values))
            axis.set_xlabel("minutes")
            axis.set_title(label)
        drawn.savefig(FIGURE, metadata={"Software": None})
        plt.close(drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--redraw", action="store_true", help="draw the figure from the file")
    options = parser.parse_args()
    record = json.loads(options.out.read_text()) if options.redraw else None
    record = record or soak(options.minutes, options.out)
    draw(record)
    print({name: value for name, value in record.items() if name != "rounds"})


if __name__ == "__main__":
    main()
