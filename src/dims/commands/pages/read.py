"""From a run on disk to the data of its page."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from dims.commands.pages.draws_page import draws_page, read_beside, read_draws, read_store
from dims.errors import DrawsFileError, ReportError

__all__ = ["read_page"]


def read_page(place: Path) -> dict[str, Any]:
    """A file of draws, a store's folder, or what a package's `dims.pages` entry point reads.

    Such an entry point is a function from a path to the data of a page, or None.
    """
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
    for entry in entry_points(group="dims.pages"):
        page: dict[str, Any] | None = entry.load()(place)
        if page is not None:
            return page
    raise ReportError(
        f"{place}: holds no run; give a file of Draws.save, the folder of sample(store=...) "
        "or of dims reproduce"
    )
