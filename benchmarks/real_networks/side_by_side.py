"""Trainings of small networks at once, on one GPU or in turn on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from real_networks.training import Trainer


def side_by_side(
    trainers: Sequence[Trainer], starts: Sequence[Tensor], seeds: Sequence[int]
) -> list[Tensor]:
    """Networks by the trainers' recipes, one step of each in turn.

    On a GPU each has a stream of its own: a step of one small network leaves most of it idle.
    """
    streams = [torch.cuda.Stream() if each.on_gpu else None for each in trainers]
    going = {
        number: each.going(start, each.recipe.epochs, each.recipe.rate_at, seed)
        for number, (each, start, seed) in enumerate(zip(trainers, starts, seeds, strict=True))
    }
    ends: dict[int, Tensor] = {}
    if trainers[0].on_gpu:
        torch.cuda.synchronize()  # streams do not wait for what was begun on another
    while going:
        for number in list(going):
            with torch.cuda.stream(streams[number]):  # None changes nothing
                try:
                    next(going[number])
                except StopIteration as end:
                    ends[number] = end.value[0]
                    del going[number]
    if trainers[0].on_gpu:
        torch.cuda.synchronize()
    return [ends[number] for number in range(len(trainers))]
