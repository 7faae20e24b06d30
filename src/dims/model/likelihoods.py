"""How a network's outputs explain the targets: Gaussian, Bernoulli (one logit), Categorical.

Each gives −log p(y|f) per data point with the terms that do not depend on f left out, those terms
apart, and the Hessian of −log p in f that the Gauss–Newton approximation needs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Likelihood",
    "given_noise",
    "resolve_likelihood",
    "with_noise",
]


class Likelihood(ABC):
    """−log p(y | f), its constant, and its curvature in f."""

    task: str

    @abstractmethod
    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """−log p(yᵢ|fᵢ) of N points, less constants: outputs (N, C), targets as checked; (N,)."""

    @abstractmethod
    def constant(self, outputs_per_point: int) -> float:
        """The terms of −log p of one point that do not depend on f."""

    @abstractmethod
    def output_hessian(self, outputs: Tensor) -> Tensor:
        """∂²(−log p)/∂f², (N, C, C); for label smoothing too it does not depend on y."""

    @abstractmethod
    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The targets in the shape and type `negative_log` takes, or an error that says why not."""


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """y ~ N(f, σ²): −log p = ½‖y − f‖²/σ² + C·(log σ + ½ log 2π)."""

    noise_std: float = 1.0
    task = "regression"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_std) and self.noise_std > 0):
            raise ValueError(f"noise_std: must be positive and finite, got {self.noise_std}")

    def with_noise(self, noise_std: float) -> Gaussian:
        return replace(self, noise_std=float(noise_std))

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (0.5 / self.noise_std**2) * (targets - outputs).square().sum(-1)

    def constant(self, outputs_per_point: int) -> float:
        return outputs_per_point * (math.log(self.noise_std) + 0.5 * math.log(2 * math.pi))

    def output_hessian(self, outputs: Tensor) -> Tensor:
        points, width = outputs.shape
        identity = torch.eye(width, dtype=outputs.dtype, device=outputs.device)
        return (identity / self.noise_std**2).expand(points, width, width)

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if targets.ndim == 1 and outputs.shape[-1] == 1:
            targets = targets.unsqueeze(-1)
        if targets.shape != outputs.shape:
            raise ValueError(
                f"targets: shape {tuple(targets.shape)} does not match the model's outputs "
                f"{tuple(outputs.shape)}; give one target per point and output"
            )
        targets = targets.to(dtype=outputs.dtype)
        _require_finite(targets)
        return targets


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """One logit f, y ∈ {0, 1}: −log p = −ỹ log σ(f) − (1 − ỹ) log σ(−f), ỹ = y(1 − s) + s/2."""

    label_smoothing: float = 0.0
    task = "classification"

    def __post_init__(self) -> None:
        _check_smoothing(self.label_smoothing)

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        smooth = targets * (1 - self.label_smoothing) + 0.5 * self.label_smoothing
        logits = outputs.squeeze(-1)
        return functional.softplus(logits) - smooth * logits

    def constant(self, outputs_per_point: int) -> float:
        return 0.0

    def output_hessian(self, outputs: Tensor) -> Tensor:
        probability = torch.sigmoid(outputs)
        return (probability * (1 - probability)).unsqueeze(-1)

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape[-1] != 1:
            raise ValueError(
                f"likelihood: Bernoulli takes one logit per point, the model gives "
                f"{outputs.shape[-1]}; use Categorical"
            )
        return _check_labels(targets, outputs.shape[0], classes=2).to(outputs.dtype)


@dataclass(frozen=True)
class Categorical(Likelihood):
    """C logits f, y ∈ {0, …, C−1}: −log p = −Σ ỹ log softmax(f), ỹ smoothed towards 1/C."""

    label_smoothing: float = 0.0
    task = "classification"

    def __post_init__(self) -> None:
        _check_smoothing(self.label_smoothing)

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        log_probabilities = torch.log_softmax(outputs, -1)
        labels = targets.expand(outputs.shape[:-1]).unsqueeze(-1)
        chosen = log_probabilities.gather(-1, labels).squeeze(-1)
        if self.label_smoothing == 0.0:
            return -chosen
        smoothed = (1 - self.label_smoothing) * chosen
        return -smoothed - self.label_smoothing * log_probabilities.mean(-1)

    def constant(self, outputs_per_point: int) -> float:
        return 0.0

    def output_hessian(self, outputs: Tensor) -> Tensor:
        probabilities = torch.softmax(outputs, -1)
        return torch.diag_embed(probabilities) - probabilities.unsqueeze(
            -1
        ) * probabilities.unsqueeze(-2)

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape[-1] < 2:
            raise ValueError(
                "likelihood: Categorical needs at least two logits per point, the model gives "
                f"{outputs.shape[-1]}; use Bernoulli for a single logit"
            )
        return _check_labels(targets, outputs.shape[0], classes=outputs.shape[-1])


def resolve_likelihood(likelihood: str | Likelihood, outputs: int) -> Likelihood:
    """Turn "regression" or "classification" into an object, by the number of outputs."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if likelihood == "regression":
        return Gaussian()
    if likelihood == "classification":
        return Bernoulli() if outputs == 1 else Categorical()
    raise ValueError(
        f"likelihood: {likelihood!r} is unknown; give 'regression', 'classification' or a "
        "Likelihood object (dims.Gaussian, dims.Bernoulli, dims.Categorical)"
    )


def given_noise(likelihood: str | Likelihood, noise_std: float | None) -> float | None:
    """σ where a user gave one, as a number or in an object; "regression" alone leaves it open."""
    if noise_std is None and isinstance(likelihood, Gaussian):
        return likelihood.noise_std
    return noise_std


def with_noise(likelihood: str | Likelihood, noise_std: float | None) -> str | Likelihood:
    """The likelihood with the given noise σ, as it is where none is given."""
    if noise_std is None:
        return likelihood
    if likelihood == "regression":
        return Gaussian(noise_std)
    if isinstance(likelihood, Gaussian):
        return likelihood.with_noise(noise_std)
    raise ValueError(f"noise_std: it belongs to regression only; the likelihood is {likelihood!r}")


def _check_smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"label_smoothing: must lie in [0, 1), got {label_smoothing}")


def _check_labels(targets: Tensor, points: int, classes: int) -> Tensor:
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets.squeeze(1)
    if targets.ndim != 1 or targets.shape[0] != points:
        hint = "; turn one-hot labels into class numbers with targets.argmax(-1)"
        raise ValueError(
            f"targets: class labels must have shape ({points},), got {tuple(targets.shape)}"
            + (hint if targets.ndim == 2 else "")
        )
    labels = targets.to(torch.int64)
    if targets.is_floating_point() and not torch.equal(labels.to(targets.dtype), targets):
        raise ValueError("targets: class labels must be whole numbers; got fractions or NaN")
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0 or highest >= classes:
        raise ValueError(
            f"targets: class labels must lie in 0..{classes - 1} for this model's outputs, "
            f"found {lowest}..{highest}"
        )
    return labels


def _require_finite(targets: Tensor) -> None:
    if not torch.isfinite(targets).all():
        raise ValueError("targets: contain NaN or infinite values; clean or drop those points")
