"""Results on disk: one JSON file for each run of an experiment."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dims.mechanics.batch import Progress
from dims.sampling.engine import Engine, InProcess
from dims.sampling.files import write_text_atomically

__all__ = ["kept_network", "load_runs", "once", "percent", "run_all", "save_tensors"]


def once(path: Path, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result in the file, or of a run whose result is put there.

    It is written beside and moved, so that an interrupted run leaves no half file.
    """
    return run_all({path: run}, InProcess())[0]


def run_all(
    runs: Mapping[Path, Callable[[], dict[str, Any]]], engine: Engine
) -> list[dict[str, Any]]:
    """The results of all runs; those without a file are computed by the engine, in any order."""
    missing = {path: run for path, run in runs.items() if not path.exists()}
    for path, result in engine.each(missing):
        _write(path, result)
    return [json.loads(path.read_text()) for path in runs]


def _write(path: Path, result: dict[str, Any]) -> None:
    from dims import __version__  # the package imports nothing of the experiments

    result = {
        **result,
        "dims": __version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, json.dumps(result, indent=1))


def kept_network(
    path: Path, fresh: Callable[[], nn.Module], train: Callable[[], nn.Module]
) -> nn.Module:
    """The network in the file, or of a training whose weights are put there."""
    if not path.exists():
        save_tensors(train().state_dict(), path)
    model = fresh()
    model.load_state_dict(load_file(path))
    return model.eval()


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """As one file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    save_file({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, draft)
    draft.replace(path)


def percent(say: Callable[[str], None], what: str) -> Callable[[Progress], None]:
    """Tells how far a batch of trajectories is, as a text that ends in a percentage."""

    def tell(now: Progress) -> None:
        moved = now.done * now.end_time + (now.rows - now.done) * now.mean_time
        say(f"{what} {100 * moved / (now.rows * now.end_time):.0f} %")

    return tell


def load_runs(folder: Path) -> list[dict[str, Any]]:
    """All finished runs below a folder, in the order of their names; parts of others are none."""
    paths = sorted(folder.rglob("*.json"))
    return [
        json.loads(path.read_text())
        for path in paths
        if not any(parent.suffix == ".parts" for parent in path.parents)
    ]
