"""The network of an estimator: a perceptron that standardises its own inputs."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from dims.model.training import perceptron

__all__ = ["untrained"]

ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}
# Of units that are bounded, the prior makes curves of few rows too flat.
USUAL = {"regression": "silu", "classification": "tanh"}


class Standardise(nn.Module):
    """(x − mean) / scale, with constants."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: np.ndarray, scale: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs - self.mean) / self.scale


class Skip(nn.Module):
    """network(x) + W·x, with W = 0 at first.

    In a perceptron a straight line takes products of weights of two layers, which a strong prior
    makes zero. It leaves some of W: from few rows of many columns, that is all that can be learned.
    """

    def __init__(self, network: nn.Module, columns: int, outputs: int) -> None:
        super().__init__()
        self.network = network
        self.linear = nn.utils.skip_init(
            nn.Linear, columns, outputs, bias=False, dtype=torch.float64
        )
        nn.init.zeros_(self.linear.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.network(inputs) + self.linear(inputs)


def untrained(
    estimator: Any, features: np.ndarray, outputs: int, generator: torch.Generator, skip: bool
) -> nn.Module:
    """A perceptron for these features, with first weights from the generator.

    Args:
        estimator: Its `hidden` and `activation`, and the names and units of its columns.
        features: Of the rows to learn from.
        outputs: Of the network.
        generator: Of the first weights.
        skip: Whether to add a linear function; a network without hidden layers is one.

    Raises:
        ValueError: The widths or the activation are not known.
    """
    hidden, activation = estimator.hidden, estimator.activation
    if activation is None:
        activation = USUAL["classification" if is_classifier(estimator) else "regression"]
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"activation: {activation!r} is unknown; there are {known}")
    listed = isinstance(hidden, Sequence)
    if not (listed and all(isinstance(width, Integral) and int(width) > 0 for width in hidden)):
        raise ValueError(f"hidden: expected widths of layers such as (16, 16), got {hidden!r}")
    widths = [features.shape[1], *map(int, hidden), outputs]
    layers = perceptron(widths, ACTIVATIONS[activation], generator=generator)
    scaler = StandardScaler().fit(features)
    standardise = Standardise(scaler.mean_, scaler.scale_)
    if skip and len(hidden):
        network = nn.Sequential(standardise, Skip(layers, widths[0], outputs))
    else:
        network = nn.Sequential(standardise, *layers)
    return _named(network, estimator)


def _named(network: nn.Module, estimator: Any) -> nn.Module:
    """Attributes that say whose inputs and targets these are, for `dims report`."""
    found: dict[str, Any] = {}
    if hasattr(estimator, "feature_names_in_"):
        found["input_names"] = estimator.feature_names_in_.tolist()
    if hasattr(estimator, "classes_"):
        found["class_names"] = estimator.classes_.tolist()
    if hasattr(estimator, "target_mean_"):
        pair = (estimator.target_mean_, estimator.target_scale_)
        found["targets_standardised_by"] = [numbers.tolist() for numbers in pair]
    vars(network).update(found)
    return network
