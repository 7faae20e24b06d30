"""MC dropout: the dropout of training, kept for predictions; a draw is one mask of all units.

    h̃ = m∘h / (1 − p),   mᵢ ~ Bernoulli(1 − p),   W·h̃ = W·diag(m/(1 − p))·h

The mask is written into the weights of the layer beside the dropout layer, so that a draw is a
parameter vector of the same network. It is the same mask at all points: at each point predictions
are distributed as those of torch's dropout, and a draw is one function.

Reference: Y. Gal and Z. Ghahramani, "Dropout as a Bayesian approximation: representing model
uncertainty in deep learning", ICML 2016.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from dims.baselines.ensemble import residual_std
from dims.model.likelihoods import Likelihood, leaves_noise_open, with_noise
from dims.model.shapes import RowVectors, check_integer
from dims.model.training_data import slice_inputs
from dims.sampling.draws import Draws
from dims.sampling.perturbations import standard_noise
from dims.surface.loss import LossSurface
from dims.surface.members import PROBED_POINTS

__all__ = ["mc_dropout"]

DROPOUT = nn.modules.dropout._DropoutNd
BY_CHANNEL = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def mc_dropout(
    model: nn.Module,
    data: Any,
    likelihood: str | Likelihood,
    draws: int,
    *,
    prior_precision: float | Tensor = 1.0,
    noise_std: float | None = None,
    effective_points: float | None = None,
    loss_scale: float = 1.0,
    seed: int = 0,
) -> Draws:
    """Draw masks of the dropout layers of a trained network and write them into its weights.

    Dropout must act on the inputs or outputs of a linear layer or convolution: unit by unit
    (`nn.Dropout`) for linear layers, by channel (`nn.Dropout2d`) for convolutions. Flattening,
    pooling and ReLU may lie between. Whether a mask can be written into the weights is tested on
    the data, and refused where it cannot.

    Args:
        model: The network, trained with dropout, in eval mode; it is not modified.
        data: The training data.
        likelihood: "regression", "classification" or a likelihood object.
        draws: Number of draws.
        prior_precision: Precision of the Gaussian prior of the loss that is reported.
        noise_std: σ of a Gaussian likelihood; None takes the draws' residuals.
        effective_points: How many points the likelihood counts as; None counts each once.
        loss_scale: A factor on likelihood and prior.
        seed: Of the masks: draw i depends on (seed, i) only.

    Returns:
        One draw for each mask; θ* is the network without dropout.

    Raises:
        ValueError: There is no dropout layer, or masks of one cannot be written into weights.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Dropout(0.1), nn.Linear(50, 1))
        >>> draws = dims.mc_dropout(train(model).eval(), (x, y), "regression", 100)
    """
    check_integer("draws", draws)
    check_integer("seed", seed, lowest=0)
    scales: dict[str, Any] = {"effective_points": effective_points, "loss_scale": loss_scale}
    _refuse_hidden_dropout(model)
    surface = LossSurface(model, data, with_noise(likelihood, noise_std), prior_precision, **scales)
    sites = _find_sites(surface)
    factors = _draw_factors(sites, draws, seed, surface.vector.initial)
    thetas = surface.initial.expand(draws, -1)
    for site, scales_of_draws in zip(sites, factors, strict=True):
        thetas = site.fold(surface, thetas, scales_of_draws)
    if leaves_noise_open(likelihood, noise_std):
        noisy = surface.likelihood.with_noise(residual_std(surface, thetas))
        surface = surface.with_settings(likelihood=noisy)
    made = Draws.from_parameters(surface, thetas, "mc_dropout")
    rates = {f"{site.layer} ({number})": site.probability for number, site in enumerate(sites)}
    return replace(made, seed=seed, settings={"dropout": rates})


@dataclass(frozen=True)
class _Target:
    """Where a mask goes: which dimension of which parameters."""

    names: tuple[str, ...]
    dim: int
    size: int


@dataclass(frozen=True)
class _Site:
    """One call of a dropout layer."""

    layer: str
    probability: float
    shape: tuple[int, ...]  # of the mask of a point, broadcast over the rest of it
    target: _Target | None = None

    @property
    def units(self) -> int:
        return torch.Size(self.shape).numel()

    def fold(self, surface: LossSurface, thetas: Tensor, factors: Tensor) -> RowVectors:
        """Rows θ with the factors of their units (S, units) written into the weights."""
        assert self.target is not None
        tensors = surface.vector.unflatten(thetas)
        # A channel is several inputs of a linear layer behind `Flatten`.
        columns = factors.repeat_interleave(self.target.size // self.units, dim=1)
        for name in self.target.names:
            shape = [1] * tensors[name].ndim
            shape[0], shape[self.target.dim + 1] = columns.shape
            tensors[name] = tensors[name] * columns.reshape(shape)
        return torch.cat([tensors[name].flatten(1) for name in surface.vector.names], dim=1)


def _find_sites(surface: LossSurface) -> list[_Site]:
    """Every call of a dropout layer, and the weights beside it that can take its mask."""
    few = slice_inputs(surface.data.inputs, slice(0, PROBED_POINTS))
    calls = _record_calls(surface, few)
    sites = []
    for place, (name, layer, shape) in enumerate(calls):
        if not isinstance(layer, DROPOUT) or layer.p == 0:
            continue
        by_channel = isinstance(layer, BY_CHANNEL)
        mask = (shape[1], *[1] * (len(shape) - 2)) if by_channel else tuple(shape[1:])
        site = _Site(name, layer.p, mask)
        number = sum(isinstance(call.layer, DROPOUT) for call in calls[:place])
        targets = _candidates(calls, place, site.units)
        fitting = (t for t in targets if _agrees(surface, few, replace(site, target=t), number))
        target = next(fitting, None)
        if target is None:
            raise ValueError(
                f"model: the masks of dropout layer {name!r} ({type(layer).__name__} on "
                f"{tuple(shape[1:])} a point) cannot be written into trainable weights beside it; "
                "put nn.Dropout before a linear layer or nn.Dropout2d before a convolution"
            )
        sites.append(replace(site, target=target))
    if not sites:
        raise ValueError(
            "model: it calls no nn.Dropout with p > 0; train it with dropout layers (dropout by "
            "torch.nn.functional cannot be seen)"
        )
    return sites


class _Call(NamedTuple):
    name: str
    layer: nn.Module
    shape: torch.Size  # of its input


def _record_calls(surface: LossSurface, few: Any) -> list[_Call]:
    """Dropout and weighted layers in the order in which they are called."""
    module = copy.deepcopy(surface.module)
    calls: list[_Call] = []

    def note(name: str) -> Callable[..., None]:
        return lambda layer, inputs, _: calls.append(_Call(name, layer, inputs[0].shape))

    for name, layer in module.named_modules():
        if isinstance(layer, (DROPOUT, *WEIGHTED)):
            layer.register_forward_hook(note(name))
    with torch.no_grad():
        surface.network(surface.vector.unflatten(surface.initial), few, module)
    return calls


def _candidates(calls: list[_Call], place: int, units: int) -> Iterator[_Target]:
    """The inputs of the layer that is called next, then the outputs of the one before."""
    after = [call for call in calls[place + 1 :] if isinstance(call.layer, WEIGHTED)][:1]
    before = [call for call in calls[:place] if isinstance(call.layer, WEIGHTED)][-1:]
    for name, layer, _ in after:
        # The weight of a grouped convolution has fewer inputs, which then match no mask.
        inputs = cast(Tensor, layer.weight).shape[1]
        repeats = isinstance(layer, nn.Linear) and inputs % units == 0
        if repeats or inputs == units:
            yield _Target((_join(name, "weight"),), 1, inputs)
    for name, layer, _ in before:
        if len(cast(Tensor, layer.weight)) == units:
            own = ("weight",) if layer.bias is None else ("weight", "bias")
            yield _Target(tuple(_join(name, part) for part in own), 0, units)


def _join(layer: str, part: str) -> str:
    return f"{layer}.{part}" if layer else part


def _agrees(surface: LossSurface, few: Any, site: _Site, number: int) -> bool:
    """Whether weights with a mask compute what the network with the mask itself computes."""
    assert site.target is not None
    if not set(site.target.names) <= set(surface.vector.names):
        return False
    theta = surface.initial.unsqueeze(0)
    # Any factors will do; unlike those of a mask, all differ.
    factors = 0.5 + torch.arange(site.units, dtype=theta.dtype, device=theta.device) / site.units
    module, calls = copy.deepcopy(surface.module), count()

    def mask(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output * factors.reshape(site.shape) if next(calls) == number else output

    for layer in module.modules():
        if isinstance(layer, DROPOUT):
            layer.register_forward_hook(mask)
    folded = site.fold(surface, theta, factors.unsqueeze(0))[0]
    with torch.no_grad():
        expected = surface.network(surface.vector.unflatten(theta[0]), few, module)
        found = surface.network(surface.vector.unflatten(folded), few)
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def _draw_factors(sites: list[_Site], draws: int, seed: int, like: Tensor) -> list[Tensor]:
    """m/(1 − p) of every unit and draw, (S, units) for each site."""
    noise = standard_noise(draws, sum(site.units for site in sites), seed, device=like.device)
    uniform = torch.special.ndtr(noise).split([site.units for site in sites], dim=1)
    return [
        # With p = 1 nothing is left to scale.
        (part >= site.probability).to(like.dtype) / max(1 - site.probability, 1e-12)
        for site, part in zip(sites, uniform, strict=True)
    ]


def _refuse_hidden_dropout(model: nn.Module) -> None:
    for name, layer in model.named_modules() if isinstance(model, nn.Module) else ():
        hidden = isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)) and layer.dropout > 0
        other = isinstance(layer, (nn.AlphaDropout, nn.FeatureAlphaDropout)) and layer.p > 0
        if hidden or other:
            raise ValueError(
                f"model: the dropout of layer {name!r} ({type(layer).__name__}) cannot be written "
                "into weights; mc_dropout takes nn.Dropout and nn.Dropout1d to nn.Dropout3d"
            )
