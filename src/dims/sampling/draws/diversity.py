"""Disagreement of draws, on the data and far from it: have they collapsed into one?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from dims.model.training_data import slice_inputs
from dims.prediction.predictive import ClassificationPredictive, Predictive
from dims.surface.loss import LossSurface

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["COLLAPSED", "Diversity", "diversity_of", "measured_diversity", "move_far"]

MOST_POINTS = 200
FAR = 5.0  # standard deviations of the inputs
COLLAPSED = 0.01  # a share of disagreement far from the data below which draws answer as one


class Diversity(NamedTuple):
    """The share of the predictive uncertainty that is disagreement of the draws, from 0 to 1."""

    on_data: float
    far: float

    @property
    def collapsed(self) -> bool:
        """Whether the draws answer as one, even far from the data."""
        return self.far < COLLAPSED


def diversity_of(draws: Draws, inputs: Any = None) -> Diversity:
    """See `Draws.diversity`."""
    if inputs is None:
        if not isinstance(draws.surface, LossSurface):
            raise TypeError("inputs: there are no training data to look at; give inputs")
        every = max(1, draws.surface.points // MOST_POINTS)
        inputs = slice_inputs(draws.surface.data.inputs, slice(0, MOST_POINTS * every, every))
    far = math.nan
    if isinstance(inputs, Tensor) and inputs.is_floating_point() and len(inputs) > 1:
        far = _share(draws.predict(move_far(inputs)))
    return Diversity(_share(draws.predict(inputs)), far)


def measured_diversity(draws: Draws) -> Diversity | None:
    """The same for a report: None where it cannot be known (one draw, no data, broken outputs)."""
    if len(draws) < 2 or not isinstance(draws.surface, LossSurface):
        return None
    try:
        return diversity_of(draws)
    except ValueError:  # NaN outputs; the report names such draws elsewhere
        return None


def move_far(inputs: Tensor, distance: float = FAR, seed: int = 0) -> Tensor:
    """Each input moved by so many standard deviations in a random direction of its own."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(inputs.shape, generator=generator, dtype=torch.float64).to(inputs)
    length = noise.flatten(1).norm(dim=1).view(-1, *[1] * (inputs.ndim - 1))
    return inputs + distance * inputs.std(dim=0) * noise / length


def _share(predictive: Predictive) -> float:
    if isinstance(predictive, ClassificationPredictive):
        part, whole = predictive.mutual_information, predictive.entropy
    else:
        part, whole = predictive.epistemic, predictive.variance
    total = float(whole.double().mean())
    return float(part.double().mean()) / total if total > 0 else 0.0
