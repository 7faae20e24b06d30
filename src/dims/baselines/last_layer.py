"""Laplace on the last linear layer, the features before it being fixed.

    W ~ N(W*, P⁻¹),   P = curvature of L in the weights of that layer

Reference: A. Kristiadi, M. Hein and P. Hennig, "Being Bayesian, even just a bit, fixes
overconfidence in ReLU networks", ICML 2020.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dims.baselines.common import check_integer
from dims.curvature import Curvature, fit_curvature
from dims.curvature.evidence import log_marginal_likelihood, tune_evidence, tuned_surface
from dims.model.likelihoods import Likelihood, given_noise, with_noise
from dims.model.network import BatchedNetwork
from dims.model.training_data import Inputs, collect, slice_inputs
from dims.sampling.draws import Draws
from dims.sampling.draws.measure import measure
from dims.sampling.perturbations import start_velocities
from dims.surface.loss import LossSurface

__all__ = ["last_layer"]


def last_layer(
    model: nn.Module,
    train_data: Any,
    likelihood: str | Likelihood,
    count: int,
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
    """Draws of the weights and bias of one linear layer, which predict with the whole network.

    `layer` names it; None takes the linear layer that the network calls last. With `tune`, prior
    precision and noise that are not given maximise the marginal likelihood.
    """
    check_integer("count", count)
    check_integer("seed", seed, lowest=0)
    noise_std = given_noise(likelihood, noise_std)
    network = BatchedNetwork(model)
    data = collect(train_data, network.vector.device, network.vector.dtype)
    if layer is None:
        layer = _last_called(network, data.inputs)
    surface = LossSurface(
        model,
        data,
        with_noise(likelihood, noise_std),
        1.0 if prior_precision is None else prior_precision,
        effective_points=effective_points,
        loss_scale=loss_scale,
        parameters=_trainable(model, layer),
    )
    theta = surface.initial
    fitted = fit_curvature(surface, theta, curvature, curvature_kind, rank, seed)
    if tune:
        surface = _tuned(surface, fitted, prior_precision is None, noise_std is None)
    thetas = theta + start_velocities(fitted.precision_for(surface), count, seed)
    return Draws(
        parameters=thetas,
        method="last_layer",
        surface=surface,
        map_parameters=theta,
        seed=seed,
        settings={
            "layer": layer,
            "curvature": curvature,
            "curvature_kind": curvature_kind,
            "rank": rank if curvature == "low_rank" else None,
            "tune": tune,
            "log_marginal_likelihood": log_marginal_likelihood(surface, theta, fitted),
        },
        **measure(surface, thetas),
    )


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
        raise ValueError(f"layer: {layer!r} is no linear layer of the model; there are {known}")
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
