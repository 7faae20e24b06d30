"""Findings and predictions of saved draws, from the network and the data of their problem."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dims.commands.entry import call_entry, import_entry
from dims.commands.pages.beside import FINDINGS, LARGEST, PREDICTIONS, beside
from dims.commands.pages.predicted import predicted
from dims.model.shapes import Vector
from dims.model.training_data import TrainingData
from dims.sampling.draws import Draws
from dims.sampling.draws.mixture import Mixture
from dims.sampling.draws.unseen import checked_unseen
from dims.sampling.findings import found_in
from dims.sampling.store.folder import read_small
from dims.sampling.store.load import load
from dims.sampling.weighing import weighed
from dims.sampling.widening import widened
from dims.surface.loss import LossSurface

__all__ = ["compute"]


def compute(place: Path, problem: str) -> dict[str, dict[str, Any]]:
    """Load draws with their network and data, and predict.

    Args:
        place: A file of draws, or the folder of a store.
        problem: `file.py:function`, as given to `dims sample`.

    Returns:
        The contents of the files of findings and predictions. How prior and noise were chosen is
        known to the run alone and is not among them.

    Raises:
        EntryError: The problem cannot be called.
        DrawsFileError: The draws are damaged, or belong to another network or other data.
    """
    module, name = import_entry(problem)
    torch.manual_seed(0)  # as `dims sample`
    model, data, _, rows = call_entry(module, name)
    draws = load(place, model, data)
    surface = draws.surface
    assert isinstance(surface, LossSurface)  # it was given data
    held_out = None if rows is None else checked_unseen(rows, surface)
    if draws.mixture is None:
        network = torch.cat([model.get_parameter(n).reshape(-1) for n in surface.vector.names])
        found = _found_by_the_run(place)
        draws = _as_found(draws, network.detach(), found) or _weighed(draws, held_out)
    return {
        FINDINGS: found_in(draws),
        PREDICTIONS: predicted(draws, surface.data, held_out),
    }


def _weighed(draws: Draws, held_out: TrainingData | None) -> Draws:
    return weighed(draws, held_out) if len(draws.times) else draws


def _found_by_the_run(place: Path) -> dict[str, Any]:
    """What the run wrote of its draws; nothing where it cannot be read."""
    try:
        content = read_small(beside(place, FINDINGS), LARGEST)
        found = {} if content is None else json.loads(content)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_found(draws: Draws, network: Vector, found: dict[str, Any]) -> Draws | None:
    """The draws with the weights that the run gave them, and widened where they were.

    The files of a store hold the draws alone: their weights need rows that other draws had not
    seen, and are among the findings.
    """
    weights = found.get("weights")
    if not isinstance(weights, dict) or found.get("draws") != len(draws):
        return None
    if "widened" in weights:
        draws = widened(draws, networks=network)
    tangents = None if draws.mixture is None else draws.mixture.tangents
    shares = torch.tensor(list(weights.values()), dtype=torch.float64)
    try:
        gain, error = (math.nan if known is None else float(known) for known in found["gain"])
        rows, learnt = int(found["held_out"]), "refit" in found
        mixture = Mixture(network, shares / shares.sum(), rows, gain, error, tangents, learnt)
        return replace(draws, mixture=mixture)
    except (LookupError, TypeError, ValueError):
        return None
