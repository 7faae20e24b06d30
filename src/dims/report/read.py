"""From a run on disk to the data of its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dims.draws.storage import DrawsFileError
from dims.report.draws_page import draws_page, read_beside, read_draws, read_store
from dims.report.join import joined
from dims.report.parts import ReportError
from dims.report.results_page import results_page

__all__ = ["ReportError", "read_page"]

LARGEST = 2**28  # bytes of a JSON file; results are far smaller


def read_page(place: Path) -> dict[str, Any]:
    """A file of draws, a store's folder, a result of `dims reproduce` or a folder of them."""
    if not place.exists():
        raise ReportError(f"{place}: there is no such file or folder")
    try:
        if place.is_dir() and (place / "manifest.json").exists():
            draws = read_store(place)
            return draws_page(draws, read_beside(place, draws.method))
        if place.suffix == ".safetensors":
            draws = read_draws(place)
            return draws_page(draws, read_beside(place, draws.method))
    except DrawsFileError as error:
        raise ReportError(f"{place}: {error}") from error
    runs = _runs(place)
    if not runs:
        raise ReportError(
            f"{place}: holds no run; give a file of Draws.save, the folder of sample(store=...) "
            "or of dims reproduce"
        )
    folder = place if place.is_dir() else place.parent
    comparison = folder / "comparison.csv"
    try:
        return results_page(joined(runs), comparison if comparison.exists() else None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ReportError(
            f"{place}: not as dims reproduce writes results ({error!r}); make the run again"
        ) from error


def _runs(place: Path) -> list[dict[str, Any]]:
    files = sorted(place.rglob("*.json")) if place.is_dir() else [place]
    runs: list[dict[str, Any]] = []
    for file in files:
        if file.stat().st_size > LARGEST:
            raise ReportError(f"{file}: too large for a result")
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ReportError(f"{file}: no JSON text ({error}); make the run again") from error
        entries = found if isinstance(found, list) else [found]
        runs += [run for run in entries if isinstance(run, dict) and "experiment" in run]
    return runs
