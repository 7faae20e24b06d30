"""Findings and predictions of saved draws, from the network and the data of their problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dims.commands.entry import call_entry, import_entry
from dims.commands.pages.beside import FINDINGS, PREDICTIONS
from dims.commands.pages.predicted import predicted
from dims.sampling.draws.unseen import checked_unseen
from dims.sampling.findings import found_in
from dims.sampling.store.load import load
from dims.sampling.weighing import weighed
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
    if draws.mixture is None and len(draws.times):
        draws = weighed(draws, held_out)
    return {
        FINDINGS: found_in(draws),
        PREDICTIONS: predicted(draws, surface.data, held_out),
    }
