"""Results on disk: one JSON file for each run of an experiment."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

__all__ = ["load_runs", "once"]


def once(path: Path, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result in the file, or of a run whose result is put there.

    It is written beside and moved, so that an interrupted run leaves no half file.
    """
    if path.exists():
        return dict(json.loads(path.read_text()))
    from dims import __version__  # the package imports nothing of the experiments

    result = {
        **run(),
        "dims": __version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.part")
    draft.write_text(json.dumps(result, indent=1))
    draft.replace(path)
    return result


def load_runs(folder: Path) -> list[dict[str, Any]]:
    """All finished runs below a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]
