"""The trajectories of the first draws of a run, in a small file for `dims report`."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dims.commands.pages.beside import TRAJECTORIES, beside
from dims.commands.pages.style import LABELS
from dims.commands.pages.trajectories import on_a_plane, save_times
from dims.mechanics.batch import Progress
from dims.mechanics.integrate import Trajectories
from dims.sampling.draws import Draws
from dims.sampling.files import write_text_atomically
from dims.sampling.posterior import Posterior
from dims.sampling.samplers import SAMPLERS, Start, TrajectorySampler
from dims.sampling.store.folder import read_small

__all__ = ["follow_again", "keep_followed"]

FRAMES = 40
LARGEST = 2**24  # bytes; a trajectory takes about ten thousand


def follow_again(
    posterior: Posterior,
    draws: Draws,
    count: int,
    progress: Callable[[Progress], None] | None = None,
) -> Trajectories:
    """The trajectories of draws 0 … count − 1, from the same velocities with the same settings.

    Landing on the saved times changes the steps, so ends agree to the solver's accuracy: the
    longer a trajectory and the less friction, the further the two may part.
    """
    kind = SAMPLERS.get(draws.method)
    if kind is None or not issubclass(kind, TrajectorySampler) or draws.seed is None:
        raise ValueError(f"follow: draws by {draws.method!r} have no trajectories; sample by dims")
    if posterior.surface.size < 2:
        raise ValueError("follow: a network of one parameter has no plane to show trajectories on")
    sampler = kind.from_settings(draws.settings)
    start = Start(posterior.surface, posterior.map_parameters, posterior.gradient)
    times = save_times(sampler.max_time, FRAMES, dense_early=True)
    return sampler.follow(start, posterior.perturbations(count, draws.seed), progress, times)


def keep_followed(
    posterior: Posterior,
    draws: Draws,
    count: int,
    store: Path,
    progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Follow the first draws of a store and write that there, if it is not there yet.

    A store holds one run, so the number of trajectories is all that can differ.
    """
    count, path = min(count, len(draws)), beside(store, TRAJECTORIES)
    if _kept(path) != count:
        motion = follow_again(posterior, draws, count, progress)
        named = [(LABELS[draws.method], motion)]
        shown = on_a_plane(posterior.surface, posterior.map_parameters, named, count)
        write_text_atomically(path, json.dumps(shown))
    return path


def _kept(path: Path) -> int | None:
    """How many trajectories a file holds; None where there is none, or another kind of file."""
    with suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
        content = read_small(path, LARGEST)
        return None if content is None else len(json.loads(content)["trajectories"])
    return None
