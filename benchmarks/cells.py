"""Cells of a benchmark: each is one file of results, computed if it is not there yet."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dims.sampling.files import write_text_atomically

__all__ = ["Cell", "compute", "told_of_split"]

Found = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One file, and the arguments of the function that computes what stands in it."""

    name: str
    path: Path
    arguments: tuple[Any, ...]


def compute(
    cells: Iterable[Cell], run: Callable[..., Found], told: Callable[[Found], str], workers: int = 1
) -> None:
    """Compute the cells that have no file yet, each on one core.

    Args:
        cells: In the order in which they should be begun.
        run: From the arguments of a cell to its results; a function of a module.
        told: What to print of them.
        workers: Processes at once; 1: this one.

    Raises:
        SystemExit: Some cells failed; the others have been computed all the same.
    """
    open_cells = [cell for cell in cells if not cell.path.exists()]
    failed = []
    for cell, found in _all(open_cells, run, workers):
        if isinstance(found, Exception):
            failed.append(f"{cell.name}: {type(found).__name__}: {found}")
            print(failed[-1], flush=True)
            continue
        cell.path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(cell.path, json.dumps(found, indent=1) + "\n")
        print(f"{cell.name}: {told(found)}", flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(open_cells)} failed:\n" + "\n".join(failed))


def _all(cells: list[Cell], run: Callable[..., Found], workers: int) -> Iterable[Any]:
    """Each cell with its results, or with why there are none."""
    if workers == 1:
        _one_core()
        for cell in cells:
            try:
                yield cell, run(*cell.arguments)
            except Exception as error:
                yield cell, error
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, _one_core) as pool:
        waiting = {pool.submit(run, *cell.arguments): cell for cell in cells}
        for future in as_completed(waiting):
            yield waiting[future], future.exception() or future.result()


def told_of_split(found: Found) -> str:
    """The NLL of each answer, and the seconds."""
    scores = ", ".join(f"{a} {s['nll']:.3f}" for a, s in found["scores"].items())
    return f"NLL {scores}; seconds {found['seconds']}"


def _one_core() -> None:
    torch.set_num_threads(1)
