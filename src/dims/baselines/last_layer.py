"""Laplace on the last linear layer, the features before it being fixed.

    W ~ N(W*, P⁻¹),   P = curvature of L in the weights of that layer

Reference: A. Kristiadi, M. Hein and P. Hennig, "Being Bayesian, even just a bit, fixes
overconfidence in ReLU networks", ICML 2020.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dims.curvature import Curvature, fit_curvature
from dims.curvature.evidence import log_marginal_likelihood, tune_evidence, tuned_surface
from dims.errors import renamed_arguments
from dims.model.likelihoods import Likelihood, given_noise, with_noise
from dims.model.network import BatchedNetwork
from dims.model.shapes import check_integer
from dims.model.training_data import Inputs, collect, slice_inputs
from dims.sampling.draws import Draws
from dims.sampling.perturbations import perturbations
from dims.surface.loss import LossSurface

__all__ = ["last_layer"]


@renamed_arguments(train_data="data", count="draws")
def last_layer(
    model: nn.Module,
    data: Any,
    likelihood: str | Likelihood,
    draws: int,
    *,
    layer: str | None = None,
    curvature: str = "full",
    curvature_kind: str = "ggn",
    rank: int = 100,
    tune: bool = True,
    prior_precision: float | Tensor | None = None,
    noise_std: float | None = None,
    effective_points: float | None = None,
    loss_scale: float = 1.0,
    seed: int = 0,
) -> Draws:
    """Draw the weights and bias of one linear layer; they predict with the whole network.

    Args:
        model: The trained network.
        data: The training data.
        likelihood: "regression", "classification" or a likelihood object.
        draws: Number of draws.
        layer: Name of the layer; None takes the linear layer that is called last.
        curvature: "full", "diagonal", "kronecker" or "low_rank".
        curvature_kind: "ggn" or "hessian".
        rank: Of "low_rank".
        tune: Let prior precision and noise that are not given maximise the marginal likelihood.
        prior_precision: Precision of the Gaussian prior, a number or (K,).
        noise_std: σ of a Gaussian likelihood; None tunes it.
        effective_points: How many points the likelihood counts as; None counts each once.
        loss_scale: A factor on likelihood and prior.
        seed: Of the draws.

    Returns:
        Draws of the parameters of that layer.

    Raises:
        ValueError: There is no such layer, or it cannot be sampled alone.

    Example:
        >>> draws = dims.last_layer(model, (x, y), "classification", 30)
    """
    check_integer("draws", draws)
    check_integer("seed", seed, lowest=0)
    noise_std = given_noise(likelihood, noise_std)
    chosen = with_noise(likelihood, noise_std)
    scales = {"effective_points": effective_points, "loss_scale": loss_scale}
    surface, layer = _surface(model, data, layer, chosen, prior_precision, scales)
    theta = surface.initial
    fitted = fit_curvature(surface, theta, curvature, curvature_kind, rank, seed)
    surface = _tuned(surface, fitted, tune and prior_precision is None, tune and noise_std is None)
    thetas = theta + perturbations(fitted.precision_for(surface), draws, seed)
    used = rank if curvature == "low_rank" else None
    settings: dict[str, Any] = {"layer": layer, "curvature": curvature, "tune": tune}
    settings |= {"curvature_kind": curvature_kind, "rank": used}
    settings["log_marginal_likelihood"] = log_marginal_likelihood(surface, theta, fitted)
    made = Draws.from_parameters(surface, thetas, "last_layer")
    return replace(made, seed=seed, settings=settings)


def _surface(
    model: nn.Module,
    data: Any,
    layer: str | None,
    likelihood: str | Likelihood,
    prior: float | Tensor | None,
    scales: dict[str, Any],
) -> tuple[LossSurface, str]:
    """The loss as a function of the parameters of one layer, and the layer's name."""
    network = BatchedNetwork(model)
    data = collect(data, network.vector.device, network.vector.dtype)
    layer = _last_called(network, data.inputs) if layer is None else layer
    own = _trainable(model, layer)
    prior = 1.0 if prior is None else prior
    return LossSurface(model, data, likelihood, prior, **scales, parameters=own), layer


def _tuned(surface: LossSurface, fitted: Curvature, prior: bool, noise: bool) -> LossSurface:
    """The surface under the prior and noise of most evidence; the flags say what is free."""
    if not prior and not (noise and surface.likelihood.noise_std is not None):
        return surface
    structure = "scalar" if prior else "fixed"
    fit = tune_evidence(surface, surface.initial, fitted, prior=structure, tune_noise=noise)
    return tuned_surface(surface, fit)


def _linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}


def _last_called(network: BatchedNetwork, inputs: Inputs) -> str:
    """The linear layer that is called last: the order in which layers were made tells nothing."""
    called: list[str] = []

    def note(name: str) -> Any:
        return lambda *_: called.append(name)

    # On the network's own copy of the module, so that no hook is left on the caller's.
    for name, layer in _linear_layers(network.module).items():
        layer.register_forward_hook(note(name))
    with torch.no_grad():
        network.network(
            network.vector.unflatten(network.initial), slice_inputs(inputs, slice(0, 2))
        )
    if not called:
        raise ValueError("model: it calls no nn.Linear; name a linear layer with layer=...")
    return called[-1]


def _trainable(model: nn.Module, layer: str) -> list[str]:
    """The names of the trainable parameters of a layer."""
    layers = _linear_layers(model)
    if layer not in layers:
        known = ", ".join(repr(name) for name in layers) or "none"
        raise ValueError(f"layer: {layer!r} is not a linear layer of the model; there are {known}")
    own = [name for name, p in layers[layer].named_parameters() if p.requires_grad]
    names = [f"{layer}.{name}" if layer else name for name in own]
    if not names:
        raise ValueError(f"layer: {layer!r} is frozen; set requires_grad=True on its parameters")
    shared = set(names) - {name for name, _ in model.named_parameters()}
    if shared:
        raise ValueError(
            f"layer: {', '.join(sorted(shared))} is shared with an earlier layer, so the features "
            "are not fixed; use dims.fit, or name another layer"
        )
    return names
