"""Predictions by more than the ends of trajectories: the network, and draws at saved times.

    p(y|x) = w₀·p(y|x, θ_network) + Σ_t w_t·(1/S)·Σₛ p(y|x, θₛ(t))

The groups are the trained network, the draws at each saved time, and the delivered draws. Held-out
rows choose their weights by stacking (`dims.prediction.stacking`), or they are given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from dims.model.shapes import RowVectors, Vector
from dims.model.training_data import TrainingData
from dims.prediction.predictive import Predictive
from dims.prediction.showing import Shown
from dims.prediction.stacking import cross_validated_scores, stack
from dims.prediction.weights import check_weights
from dims.sampling.draws.fields import check_parameters

if TYPE_CHECKING:
    from dims.sampling.draws.container import Draws

__all__ = ["Mixture", "across_times", "members", "mixture_predictive", "stacked"]

MOST_FOLDS = 10


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Shown):
    """What the trained network, the saved times and the delivered draws count in predictions.

    Attributes:
        network: Parameters of the trained network, (K,).
        weights: Of the network, of the draws at each saved time, and of the delivered draws,
            (T + 2,), with the sum 1; the draws of a time share its weight.
        held_out: Number of held-out rows that chose the weights; 0: they were given.
        gain: Cross-validated gain over the network alone in nats a held-out row; NaN: unknown. The
            network has the likelihood of the draws here, in regression with their noise.
        gain_error: Its standard error.
    """

    network: Vector
    weights: Tensor
    held_out: int = 0
    gain: float = math.nan
    gain_error: float = math.nan

    def _facts(self) -> dict[str, Any]:
        network, *times, end = (round(weight, 3) for weight in self.weights.tolist())
        gain = f"{self.gain:.3g} ± {self.gain_error:.2g}"
        return {
            "network": network,
            "times": times,
            "end": end,
            "held_out": self.held_out,
            "gain": gain,
        }

    def checked(self, draws: Draws) -> Mixture:
        """The same, if it fits the draws."""
        check_parameters("mixture.network", self.network, 1, draws.surface.vector)
        weights = check_weights(self.weights, len(draws.times) + 2)
        return replace(self, weights=weights.to(draws.parameters.device))

    def named_weights(self, times: Sequence[float]) -> dict[str, float]:
        """Each weight with what it belongs to."""
        names = ["network", *(f"t = {time:g}" for time in times), "end"]
        return dict(zip(names, self.weights.tolist(), strict=True))


def across_times(draws: Draws, times: Sequence[float] | None) -> Draws:
    """See `Draws.across_times`."""
    known = draws.times.tolist()
    if not known:
        raise ValueError("times: none were saved; sample with save_at=(1.0, 3.0, 10.0)")
    end = draws.settings.get("max_time")
    chosen = [*known, end] if times is None else list(times)
    strange = [time for time in chosen if time not in (*known, end)]
    if strange or not chosen:
        listed = ", ".join(f"{time:g}" for time in known)
        raise ValueError(f"times: {strange} were not saved; saved times: {listed}, and max_time")
    flags = [0.0, *(float(time in chosen) for time in known)]
    flags.append(float(end in chosen and end not in known))
    weights = torch.tensor(flags, dtype=torch.float64)
    return replace(draws, mixture=Mixture(draws.surface.initial, weights / weights.sum()))


def stacked(draws: Draws, rows: TrainingData, pseudo_count: float) -> Draws:
    """See `Draws.stacked`."""
    even = Mixture(draws.surface.initial, torch.ones(len(draws.times) + 2).double())
    even = replace(even, weights=even.weights / even.weights.sum())
    predictive = mixture_predictive(replace(draws, mixture=even), rows.inputs, None)
    scores = predictive.log_scores(rows.targets).T
    groups = [0] + [1 + t for t in range(len(draws.times) + 1) for _ in range(len(draws))]
    found = stack(scores, groups, pseudo_count=pseudo_count)
    weights = torch.tensor([found.group_weights[group] for group in sorted(set(groups))])
    gain, error = math.nan, math.nan
    if len(scores) > 1:
        folds = min(MOST_FOLDS, len(scores))
        honest = cross_validated_scores(scores, groups, pseudo_count=pseudo_count, folds=folds)
        gains = honest - found.group_scores[0]
        gain, error = float(gains.mean()), float(gains.std()) / math.sqrt(len(gains))
    weights = weights.double() / weights.double().sum()
    mixture = Mixture(draws.surface.initial, weights, len(scores), gain, error)
    return replace(draws, mixture=mixture)


class Members(NamedTuple):
    """One group of a mixture: parameters, the weight of each, and whether they were delivered."""

    thetas: RowVectors
    weights: Tensor
    delivered: bool


def members(draws: Draws) -> Iterator[Members]:
    """The groups whose weight is not 0: the network, each saved time, the delivered draws."""
    mixture = draws.mixture
    assert mixture is not None
    rows, device = len(draws), draws.surface.vector.device
    weights = mixture.weights.to(device)
    own = torch.full((rows,), 1 / rows, dtype=torch.float64, device=device)
    own = own if draws.weights is None else draws.weights.to(device)
    if weights[0] > 0:
        yield Members(mixture.network.unsqueeze(0).to(device), weights[:1], False)
    for place, weight in enumerate(weights[1:-1]):
        if weight > 0:
            yield Members(draws.saved[:, place].to(device), weight * own, False)
    if weights[-1] > 0:
        yield Members(draws.parameters.to(device), weights[-1] * own, True)


def mixture_predictive(draws: Draws, inputs: Any, batch_size: int | None) -> Predictive:
    """The predictive of all groups whose weight is not 0: the network, times, delivered draws."""
    surface = draws.surface
    parts: list[Tensor] = []
    shares: list[Tensor] = []
    for thetas, share, delivered in members(draws):
        if delivered and draws.linearised:
            centre = draws.map_parameters.to(thetas.device)
            parts.append(surface.predict_linearised(centre, thetas, inputs, batch_size))
        else:
            parts.append(surface.predict(thetas, inputs, batch_size))
        shares.append(share)
    outputs = torch.cat(parts)
    if not outputs.isfinite().all():
        raise ValueError(
            "draws: some outputs are NaN or infinite there; leave such draws out with draws.select"
        )
    return surface.likelihood.predictive(outputs).with_weights(torch.cat(shares))
