"""What is already on disk: the one place that decides whether something is computed or read.

Everything that takes long goes through `kept`: it is read where its file exists, and else made,
written whole or not at all, and read back, so that an interrupted command goes on where it stopped.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from dims.sampling.engine import Engine, InProcess
from dims.sampling.files import write_tensors_atomically, write_text_atomically
from dims_paper.schema import Row, Run

T = TypeVar("T")
PARTS = ".parts"  # ends the names of folders of unfinished results


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """A file of JSON text, whole or not at all; without an indent on one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    separators = (",", ":") if indent is None else None
    write_text_atomically(path, json.dumps(value, indent=indent, separators=separators) + "\n")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """A file of tensors, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors_atomically(path, tensors)


def load_tensors(path: Path, device: str = "cpu") -> dict[str, Tensor]:
    return load_file(path, device=device)


def kept(
    path: Path, make: Callable[[], T], save: Callable[[T, Path], None], load: Callable[[Path], T]
) -> T:
    """What the file holds, or what `make` returns, which is then put there."""
    if not path.exists():
        save(make(), path)
    return load(path)


def kept_tensors(
    path: Path, make: Callable[[], Mapping[str, Tensor]], device: str = "cpu"
) -> Mapping[str, Tensor]:
    """Named tensors: draws, start velocities, scores per image."""
    return kept(path, make, save_tensors, lambda file: load_tensors(file, device))


def kept_network(
    path: Path, fresh: Callable[[], nn.Module], train: Callable[[], nn.Module]
) -> nn.Module:
    """A trained network; `fresh` makes the module whose weights are read."""

    def load(file: Path) -> nn.Module:
        model = fresh()
        model.load_state_dict(load_tensors(file))
        return model.eval()

    return kept(path, train, lambda model, file: save_tensors(model.state_dict(), file), load)


def kept_run(path: Path, make: Callable[[], Run]) -> Run:
    """The result of a run."""
    return kept_runs({path: make})[0]


def kept_runs(runs: Mapping[Path, Callable[[], Run]], engine: Engine | None = None) -> list[Run]:
    """The results of all runs; those without a file are computed by the engine, in any order."""
    missing = {path: run for path, run in runs.items() if not path.exists()}
    for path, result in (engine or InProcess()).each(missing):
        write_json(path, _with_versions(result).to_json())
    return [Run.from_json(read_json(path)) for path in runs]


def kept_rows(
    folder: Path, makers: Mapping[str, Callable[[], Row]], network: Callable[[], dict[str, float]]
) -> None:
    """Rows of a run that is not complete yet, one file each, with the facts of their network."""
    for name, make in makers.items():
        path = folder / f"{name}.row"
        if not path.exists():
            row = make()
            write_json(path, {"network": network(), "row": row.to_json()}, indent=None)
            # What an interrupted row would have gone on from.
            path.with_suffix(".safetensors").unlink(missing_ok=True)


def load_runs(folder: Path) -> list[Run]:
    """All finished runs below a folder, in the order of their names."""
    return [Run.from_json(found) for found in load_objects(folder) if "experiment" in found]


def load_objects(folder: Path) -> Iterable[dict[str, Any]]:
    """The JSON objects below a folder that are not parts of an unfinished run."""
    paths = sorted(folder.rglob("*.json"))
    return [read_json(p) for p in paths if not any(q.suffix == PARTS for q in p.parents)]


def _with_versions(run: Run) -> Run:
    from dims import __version__

    versions = {"dims": __version__, "torch": torch.__version__, "machine": platform.machine()}
    return replace(run, versions=versions)
