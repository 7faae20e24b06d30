"""The likelihoods that dims brings (Gaussian, Bernoulli, Categorical) and shortcuts to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, distributions, nn
from torch.nn import functional

from dims.model.likelihoods.base import Likelihood
from dims.model.shapes import check_positive
from dims.prediction.predictive import ClassificationPredictive, RegressionPredictive
from dims.prediction.targets import class_labels

__all__ = ["Bernoulli", "Categorical", "Gaussian"]
__all__ += ["given_noise", "leaves_noise_open", "resolve_likelihood", "with_noise"]


@dataclass(frozen=True, repr=False)
class Gaussian(Likelihood):
    """y ~ N(f, σ²): −log p = ½‖y − f‖²/σ² + C·(log σ + ½ log 2π).

    Args:
        noise_std: σ, positive. `dims.fit` keeps a given σ and tunes it for "regression".

    Raises:
        ValueError: σ is not positive and finite.

    Example:
        >>> posterior = dims.fit(model, (x, y), dims.Gaussian(0.1))
    """

    noise_std: float = 1.0
    name = "gaussian"
    task = "regression"

    def __post_init__(self) -> None:
        check_positive("noise_std", self.noise_std)

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (0.5 / self.noise_std**2) * (targets - outputs).square().sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.Normal:
        return distributions.Normal(outputs, self.noise_std)

    def constant(self, outputs_per_point: int) -> float:
        return outputs_per_point * (math.log(self.noise_std) + 0.5 * math.log(2 * math.pi))

    def output_hessian(self, outputs: Tensor) -> Tensor:
        points, width = outputs.shape
        identity = torch.eye(width, dtype=outputs.dtype, device=outputs.device)
        return (identity / self.noise_std**2).expand(points, width, width)

    def predictive(self, outputs: Tensor) -> RegressionPredictive:
        return RegressionPredictive(outputs, self.noise_std)

    def torch_loss(self) -> tuple[nn.Module, float]:
        return nn.MSELoss(reduction="sum"), 0.5 / self.noise_std**2


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """One logit f, y ∈ {0, 1}: −log p = −ỹ log σ(f) − (1 − ỹ) log σ(−f), ỹ = y(1 − s) + s/2.

    Args:
        label_smoothing: s in [0, 1). It acts on the loss; predictions are σ(f).

    Raises:
        ValueError: s lies outside [0, 1).

    Example:
        >>> posterior = dims.fit(model, (x, labels), dims.Bernoulli(label_smoothing=0.1))
    """

    label_smoothing: float = 0.0
    name = "bernoulli"
    task = "classification"

    def __post_init__(self) -> None:
        _check_smoothing(self.label_smoothing)

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        smooth = targets * (1 - self.label_smoothing) + 0.5 * self.label_smoothing
        logits = outputs.squeeze(-1)
        return functional.softplus(logits) - smooth * logits

    def distribution(self, outputs: Tensor) -> distributions.Bernoulli:
        return distributions.Bernoulli(logits=outputs.squeeze(-1))

    def output_hessian(self, outputs: Tensor) -> Tensor:
        probability = torch.sigmoid(outputs)
        return (probability * (1 - probability)).unsqueeze(-1)

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape[-1] != 1:
            raise ValueError(
                f"likelihood: Bernoulli takes one logit per point, the model gives "
                f"{outputs.shape[-1]}; use Categorical"
            )
        return class_labels(targets, outputs.shape[0], classes=2).to(outputs.dtype)

    def predictive(self, outputs: Tensor) -> ClassificationPredictive:
        columns = torch.cat([-outputs, outputs], dim=-1)
        return ClassificationPredictive(functional.logsigmoid(columns))

    def torch_loss(self) -> tuple[nn.Module, float]:
        return nn.BCEWithLogitsLoss(reduction="sum"), 1.0


@dataclass(frozen=True)
class Categorical(Likelihood):
    """C logits f, y ∈ {0, …, C−1}: −log p = −Σ ỹ log softmax(f), ỹ smoothed towards 1/C.

    Args:
        label_smoothing: s in [0, 1), as in `torch.nn.CrossEntropyLoss`. It acts on the loss;
            predictions are softmax(f).

    Raises:
        ValueError: s lies outside [0, 1).

    Example:
        >>> posterior = dims.fit(model, (x, labels), dims.Categorical(label_smoothing=0.1))
    """

    label_smoothing: float = 0.0
    name = "categorical"
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

    def distribution(self, outputs: Tensor) -> distributions.Categorical:
        return distributions.Categorical(logits=outputs)

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
        return class_labels(targets, outputs.shape[0], classes=outputs.shape[-1])

    def predictive(self, outputs: Tensor) -> ClassificationPredictive:
        for draw in outputs:  # in place: the log-probabilities need no memory of their own
            draw.copy_(torch.log_softmax(draw, dim=-1))
        return ClassificationPredictive(outputs)

    def torch_loss(self) -> tuple[nn.Module, float]:
        return nn.CrossEntropyLoss(reduction="sum"), 1.0


def _check_smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"label_smoothing: must lie in [0, 1), got {label_smoothing}")


# By the number of outputs.
SHORTCUTS: dict[str, Callable[[int], Likelihood]] = {
    "regression": lambda outputs: Gaussian(),
    "classification": lambda outputs: Bernoulli() if outputs == 1 else Categorical(),
}


def resolve_likelihood(likelihood: str | Likelihood, outputs: int) -> Likelihood:
    """Turn "regression" or "classification" into an object, by the number of outputs."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if not isinstance(likelihood, str) or likelihood not in SHORTCUTS:
        raise ValueError(
            f"likelihood: {likelihood!r} is unknown; give 'regression', 'classification' or a "
            "Likelihood object (dims.Gaussian, dims.Bernoulli, dims.Categorical)"
        )
    return SHORTCUTS[likelihood](outputs)


def given_noise(likelihood: str | Likelihood, noise_std: float | None) -> float | None:
    """σ where a user gave one, as a number or in an object; "regression" alone leaves it open."""
    if noise_std is None and isinstance(likelihood, Likelihood):
        return likelihood.noise_std
    return noise_std


def with_noise(likelihood: str | Likelihood, noise_std: float | None) -> str | Likelihood:
    """The likelihood with the given noise σ, as it is where none is given."""
    if noise_std is None:
        return likelihood
    return resolve_likelihood(likelihood, 2).with_noise(noise_std)


def leaves_noise_open(likelihood: str | Likelihood, noise_std: float | None) -> bool:
    """Whether there is a noise and the user gave none, neither as a number nor in an object."""
    if noise_std is not None or isinstance(likelihood, Likelihood):
        return False
    return resolve_likelihood(likelihood, 2).noise_std is not None
