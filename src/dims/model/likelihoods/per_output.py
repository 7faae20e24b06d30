"""Regression with several outputs, each with a noise of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributions

from dims.model.likelihoods.base import Likelihood
from dims.model.likelihoods.shipped import Gaussian
from dims.model.shapes import check_positive
from dims.prediction.predictive import RegressionPredictive

__all__ = ["GaussianPerOutput", "with_noise_per_output"]

SMALLEST_SHARE = 1e-4  # of the size of a target: the least noise that residuals may suggest


@dataclass(frozen=True, repr=False)
class GaussianPerOutput(Likelihood):
    """y_c ~ N(f_c, σ_c²): −log p = Σ_c ½(y_c − f_c)²/σ_c² + log σ_c + ½ log 2π.

    `noise_std` is the geometric mean of the σ_c. The evidence tunes it, and their ratios stay.
    `dims.fit(model, data, "regression")` of a network with several outputs takes the ratios from
    the residuals of the trained network.

    Args:
        noise_stds: σ_c of each output, positive.

    Raises:
        ValueError: A σ is not positive and finite, or there are none.

    Example:
        >>> posterior = dims.fit(model, (x, y), dims.GaussianPerOutput((0.1, 1.0, 10.0)))
    """

    noise_stds: Sequence[float]
    name = "gaussian_per_output"
    task = "regression"

    def __post_init__(self) -> None:
        checked = tuple(check_positive("noise_stds", value) for value in self.noise_stds)
        if not checked:
            raise ValueError("noise_stds: there are none; give one for each output")
        object.__setattr__(self, "noise_stds", checked)  # frozen, and files give a list

    @property
    def noise_std(self) -> float:  # type: ignore[override]
        """(Π_c σ_c)^(1/C), the geometric mean."""
        return math.exp(sum(map(math.log, self.noise_stds)) / len(self.noise_stds))

    def with_noise(self, noise_std: float) -> GaussianPerOutput:
        factor = check_positive("noise_std", noise_std) / self.noise_std
        return GaussianPerOutput(tuple(factor * value for value in self.noise_stds))

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return 0.5 * ((targets - outputs) / self._stds(outputs)).square().sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.Normal:
        return distributions.Normal(outputs, self._stds(outputs).expand(outputs.shape))

    def constant(self, outputs_per_point: int) -> float:
        return outputs_per_point * (math.log(self.noise_std) + 0.5 * math.log(2 * math.pi))

    def output_hessian(self, outputs: Tensor) -> Tensor:
        return torch.diag_embed(self._stds(outputs).square().reciprocal().expand(outputs.shape))

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape[-1] != len(self.noise_stds):
            raise ValueError(
                f"likelihood: GaussianPerOutput has {len(self.noise_stds)} noises, the model gives "
                f"{outputs.shape[-1]} outputs; give one for each"
            )
        return super().check_targets(outputs, targets)

    def predictive(self, outputs: Tensor) -> RegressionPredictive:
        return RegressionPredictive(outputs, self._stds(outputs).expand(outputs.shape))

    def _stds(self, outputs: Tensor) -> Tensor:
        return outputs.new_tensor(self.noise_stds)


def with_noise_per_output(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> Likelihood:
    """A Gaussian with a σ for each of several outputs: the residuals' size, where it is open.

    Args:
        likelihood: Any; one that is not a `Gaussian` comes back as it is.
        outputs: Of the trained network, (N, C).
        targets: As `check_targets` returned them.

    Returns:
        The likelihood for several outputs, the given one for a single output.
    """
    if type(likelihood) is not Gaussian or outputs.shape[-1] == 1:
        return likelihood
    sizes = targets.double().square().mean(0).sqrt()
    noises = (targets - outputs).double().square().mean(0).sqrt()
    noises = torch.maximum(noises, SMALLEST_SHARE * sizes)
    noises = torch.where(noises > 0, noises, 1.0)  # a target that is zero everywhere, and met
    return GaussianPerOutput(tuple(noises.tolist()))
