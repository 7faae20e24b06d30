"""Read a run from disk as the data of its page."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from dims.baselines.compare import COMPARISON
from dims.commands.pages.beside import read_beside
from dims.commands.pages.compare_page import compare_page
from dims.commands.pages.computed import compute
from dims.commands.pages.draws_page import draws_page, read_draws, read_store
from dims.errors import DrawsFileError, ReportError, StoreError
from dims.sampling.store.manifest import MANIFEST

__all__ = ["read_page"]


def read_page(place: Path, problem: str | None = None) -> dict[str, Any]:
    """Read a file of draws, the folder of a store, or a result of another package.

    A package adds its own results through an entry point in the group `dims.pages`: a function that
    takes a path and returns the data of a page, or None if it cannot read the path.

    Args:
        place: A file or a folder.
        problem: `file.py:function` of the network and data of draws, to predict with.

    Returns:
        The data of a page.

    Raises:
        EntryError: The problem cannot be called.
        ReportError: The path does not exist, is damaged, or is not a run.
    """
    if not place.exists():
        raise ReportError(f"{place}: no such file or folder")
    try:
        store = place.is_dir() and (place / MANIFEST).exists()
        if store or place.suffix == ".safetensors":
            draws = read_store(place) if store else read_draws(place)
            computed = None if problem is None else compute(place, problem)
            return draws_page(draws, read_beside(place, draws.method, computed))
    except (DrawsFileError, StoreError) as error:
        raise ReportError(f"{place}: {error}") from error
    if problem is not None:
        raise ReportError(f"--problem: {place} does not hold draws; leave it out")
    if place.is_dir() and (place / COMPARISON).exists():
        return _comparison(place)
    for entry in entry_points(group="dims.pages"):
        page: dict[str, Any] | None = entry.load()(place)
        if page is not None:
            return page
    raise ReportError(
        f"{place}: does not contain a run; give a file of Draws.save, the folder of "
        "sample(store=...) or compare(store=...), or a result of dims reproduce"
    )


def _comparison(place: Path) -> dict[str, Any]:
    try:
        return compare_page(place)
    except StoreError as error:
        raise ReportError(str(error)) from error
