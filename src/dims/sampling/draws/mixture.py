"""Predictions by more than the ends of trajectories: the network, and draws at saved times.

    p(y|x) = w₀·p(y|x, θ_network) + Σ_t w_t·(1/S)·Σₛ p(y|x, θₛ(t))

The groups are the trained network, the draws at each saved time, the delivered draws, and the
delivered draws with a Laplace approximation at each of them (`dims.sampling.widening`). Held-out
rows choose their weights by stacking (`dims.prediction.stacking`), or they are given. Where there
are widened draws, the weights that need no held-out rows count as some rows in advance: stacking by
a few rows alone prefers what is sharp, and its mixture is then too sure far from the data.
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

__all__ = [
    "Mixture",
    "across_times",
    "members",
    "mixture_predictive",
    "stacked",
    "usual_weights",
    "widened_weight",
]

MOST_FOLDS = 10
USUAL_ROWS = 6  # held-out rows that the usual weights count as, at a pseudo-count of 1


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Shown):
    """What the trained network, the saved times and the delivered draws count in predictions.

    Attributes:
        network: Parameters of the trained network, (K,); of several that draws started from,
            (M, K), which share its weight.
        weights: Of the network, of the draws at each saved time, of the delivered draws, and of
            the widened ones if there are any, (T + 2,) or (T + 3,), with the sum 1; the draws of a
            group share its weight.
        held_out: Number of held-out rows that chose the weights; 0: they were given.
        gain: Cross-validated gain over the network alone in nats a held-out row; NaN: unknown. The
            network has the likelihood of the draws here, in regression with their noise.
        gain_error: Its standard error.
        tangents: ε of the Laplace approximation at each delivered draw, (S, m, K); None: draws are
            not widened.
        refit: Whether the draws have learnt the held-out rows since; weights and gain are those of
            draws that had not.
    """

    network: Vector | RowVectors
    weights: Tensor
    held_out: int = 0
    gain: float = math.nan
    gain_error: float = math.nan
    tangents: Tensor | None = None
    refit: bool = False

    @property
    def networks(self) -> RowVectors:
        """Parameters of the trained networks, (M, K)."""
        return self.network.reshape(-1, self.network.shape[-1])

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
        check_parameters("mixture.network", self.networks, 2, draws.surface.vector)
        weights = check_weights(self.weights, len(draws.times) + 2 + (self.tangents is not None))
        tangents = self.tangents
        if tangents is not None:
            rows, size = draws.parameters.shape
            if tangents.ndim != 3 or (len(tangents), tangents.shape[-1]) != (rows, size):
                raise ValueError(
                    f"mixture.tangents: expected shape ({rows}, any, {size}), got "
                    f"{tuple(tangents.shape)}"
                )
            tangents = tangents.to(draws.parameters)
        return replace(self, weights=weights.to(draws.parameters.device), tangents=tangents)

    def select(self, index: Tensor) -> Mixture:
        """The same of some of the delivered draws."""
        if self.tangents is None:
            return self
        return replace(self, tangents=self.tangents[index.to(self.tangents.device)])

    def named_weights(self, times: Sequence[float]) -> dict[str, float]:
        """Each weight with what it belongs to."""
        names = ["network", *(f"t = {time:g}" for time in times), "end"]
        names += [] if self.tangents is None else ["widened"]
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
    return replace(draws, mixture=Mixture(_trained(draws), weights / weights.sum()))


def usual_weights(draws: Draws) -> Tensor:
    """What the groups of widened draws count without held-out rows, (T + 3,).

    Draws and widened draws count alike. The trained network counts as much as each of them, unless
    the likelihood has a noise: that was chosen at the minimum, and the network's own is another.
    """
    network = float(draws.surface.likelihood.noise_std is None)
    weights = torch.tensor([network, *[0.0] * len(draws.times), 1.0, 1.0], dtype=torch.float64)
    return weights / weights.sum()


def stacked(draws: Draws, rows: TrainingData, pseudo_count: float) -> Draws:
    """See `Draws.stacked`."""
    tangents = None if draws.mixture is None else draws.mixture.tangents
    count = len(draws.times) + 2 + (tangents is not None)
    even = torch.full((count,), 1 / count, dtype=torch.float64)
    plain = Mixture(_trained(draws), even, tangents=tangents)
    predictive = mixture_predictive(replace(draws, mixture=plain), rows.inputs, None)
    scores = predictive.log_scores(rows.targets).T
    sizes = [len(plain.networks)] + [len(draws)] * (len(draws.times) + 1)
    sizes += [] if tangents is None else [tangents.shape[0] * tangents.shape[1]]
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    counts = torch.full((count,), pseudo_count, dtype=torch.float64)
    if tangents is not None:
        counts = counts * (1 + USUAL_ROWS * usual_weights(draws))
    found = stack(scores, groups, pseudo_count=counts.tolist())
    weights = torch.tensor([found.group_weights[group] for group in range(count)])
    gain, error = math.nan, math.nan
    if len(scores) > 1:
        folds = min(MOST_FOLDS, len(scores))
        honest = cross_validated_scores(scores, groups, pseudo_count=counts.tolist(), folds=folds)
        gains = honest - found.group_scores[0]
        gain, error = float(gains.mean()), float(gains.std()) / math.sqrt(len(gains))
    weights = weights.double() / weights.double().sum()
    mixture = Mixture(plain.network, weights, len(scores), gain, error, tangents)
    return replace(draws, mixture=mixture)


class Members(NamedTuple):
    """One group of a mixture: parameters, the weight of each, and whether they were delivered."""

    thetas: RowVectors
    weights: Tensor
    delivered: bool


def members(draws: Draws) -> Iterator[Members]:
    """The groups of networks whose weight is not 0: the trained one, each saved time, the end."""
    mixture = draws.mixture
    assert mixture is not None
    device = draws.surface.vector.device
    weights, own = mixture.weights.to(device), _own_weights(draws)
    if weights[0] > 0:
        networks = mixture.networks.to(device)
        yield Members(networks, weights[:1].expand(len(networks)) / len(networks), False)
    end = len(draws.times) + 1
    for place, weight in enumerate(weights[1:end]):
        if weight > 0:
            yield Members(draws.saved[:, place].to(device), weight * own, False)
    if weights[end] > 0:
        yield Members(draws.parameters.to(device), weights[end] * own, True)


def widened_weight(draws: Draws) -> float:
    """What the widened draws count in predictions, which are no networks."""
    mixture = draws.mixture
    return 0.0 if mixture is None or mixture.tangents is None else float(mixture.weights[-1])


def mixture_predictive(draws: Draws, inputs: Any, batch_size: int | None) -> Predictive:
    """The predictive of all groups whose weight is not 0."""
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
    weight = widened_weight(draws)
    if weight > 0:
        assert draws.mixture is not None
        assert draws.mixture.tangents is not None
        own = weight * _own_weights(draws)
        for theta, tangents, each in zip(
            draws.parameters, draws.mixture.tangents, own, strict=True
        ):
            centre = theta.to(own.device)
            near = centre + tangents.to(own.device)
            parts.append(surface.predict_linearised(centre, near, inputs, batch_size))
            shares.append((each / len(near)).expand(len(near)))
    outputs = torch.cat(parts)
    if not outputs.isfinite().all():
        raise ValueError(
            "draws: some outputs are NaN or infinite there; leave such draws out with draws.select"
        )
    return surface.likelihood.predictive(outputs).with_weights(torch.cat(shares))


def _trained(draws: Draws) -> Vector | RowVectors:
    """The networks that draws started from."""
    return draws.surface.initial if draws.mixture is None else draws.mixture.network


def _own_weights(draws: Draws) -> Tensor:
    """Of the draws within a group, with the sum 1."""
    device = draws.surface.vector.device
    if draws.weights is not None:
        return draws.weights.to(device)
    return torch.full((len(draws),), 1 / len(draws), dtype=torch.float64, device=device)
