"""Optional files next to draws: trajectories, confidence, findings, predictions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dims.commands.pages.answers import Answers, add_findings, add_predictions
from dims.commands.pages.parts import confidence_sets, motion
from dims.commands.pages.style import LABELS
from dims.errors import ReportError
from dims.sampling.store.folder import read_small

__all__ = ["FINDINGS", "LARGEST", "PREDICTIONS", "TRAJECTORIES", "Beside", "beside", "read_beside"]

TRAJECTORIES, CONFIDENCE = "trajectories", "confidence"
FINDINGS, PREDICTIONS = "findings", "predictions"
LARGEST = 2**24  # bytes
WRONG = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Beside:
    """What is known of draws beside the draws.

    Attributes:
        sections: Data of sections of the page.
        answers: What the run found and predicts.
    """

    sections: dict[str, Any] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)


def beside(place: Path, name: str) -> Path:
    """The path of an optional file: `NAME.json` in a store, `FILE.NAME.json` next to a file."""
    return place / f"{name}.json" if place.is_dir() else place.with_suffix(f".{name}.json")


def read_beside(
    place: Path, method: str, computed: dict[str, dict[str, Any]] | None = None
) -> Beside:
    """Read the optional files of a run that exist.

    Args:
        place: The file of draws, or the folder of a store.
        method: The method of the draws.
        computed: Contents of files by their names; they replace what the files say.

    Returns:
        What the files say.

    Raises:
        ReportError: A file cannot be shown.
    """
    sections: dict[str, Any] = {}
    label = LABELS.get(method, method)
    sections |= _shown(place, TRAJECTORIES, motion) or {}
    found = _shown(place, CONFIDENCE, lambda entry: confidence_sets(entry, "test"))
    if found is not None:
        sections[CONFIDENCE] = [{"method": label, "sets": found}]
    said = Answers()
    for name, add in ((FINDINGS, add_findings), (PREDICTIONS, add_predictions)):
        given = (computed or {}).get(name)
        known = _shown(place, name, _mapping)
        if given is not None or known is not None:
            content = {**(known or {}), **(given or {})}
            _checked(beside(place, name), partial(add, said, content))
    return Beside(sections, said)


def _shown(place: Path, name: str, show: Callable[[Any], Any]) -> Any:
    """The content of a file as the page takes it; None where there is no file."""
    path = beside(place, name)
    if not path.exists():
        return None

    def load() -> Any:
        content = read_small(path, LARGEST)
        if content is None:
            raise ValueError("it is a link, not a regular file, or too large")
        return show(json.loads(content))

    return _checked(path, load)


def _mapping(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise TypeError("it does not hold an object")
    return entry


def _checked(path: Path, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except WRONG as error:
        advice = "create it again or remove it"
        raise ReportError(f"{path}: cannot be shown ({error!r}); {advice}") from error
