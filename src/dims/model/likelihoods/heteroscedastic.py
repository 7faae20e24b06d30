"""Regression whose noise depends on the input: the network predicts mean and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, distributions
from torch.nn import functional

from dims.model.likelihoods.base import Likelihood
from dims.model.shapes import check_positive
from dims.prediction.predictive import RegressionPredictive
from dims.prediction.targets import matching_targets

__all__ = ["HeteroscedasticGaussian"]

BETA = 0.5  # of the training loss; 0 is −log p, 1 fits the mean by least squares
SHIFT = math.log(math.expm1(1.0))  # softplus(SHIFT) = 1


@dataclass(frozen=True)
class HeteroscedasticGaussian(Likelihood):
    """y ~ N(μ, σ²) with 2C outputs f = (μ, s): C means, then C that give the noise.

        −log p = ½ (y − μ)²/σ² + log σ + ½ log 2π,    σ = c·(σ₀ + softplus(s + log(e − 1)))

    A network that gives 0 predicts N(0, 1), so standardise the targets. σ grows like s, not like
    eˢ: noise that is extrapolated, or linearised in θ, stays moderate. The Fisher information in
    (μ, s) is diag(1/σ², 2σ′²/σ²) with σ′ = c·sigmoid(s + log(e − 1)): positive semidefinite
    everywhere, where the Hessian in s is not.

    The network sets the noise, so `noise_std` is None and the evidence tunes the prior alone.

    Args:
        min_noise_std: σ₀, the smallest noise, positive, in the units of the targets. Without it
            the loss has no lower bound: σ → 0 at a point that the mean meets.
        noise_factor: c, positive; `dims.temperature_scaling` sets it.

    Raises:
        ValueError: σ₀ or c is not positive and finite.

    Example:
        >>> model = torch.nn.Sequential(
        ...     torch.nn.Linear(3, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2)
        ... )
        >>> loss = lambda f, y: likelihood.training_loss(f, y).mean()   # to train the model with
        >>> posterior = dims.fit(model, (x, y), dims.HeteroscedasticGaussian())
    """

    min_noise_std: float = 1e-3
    noise_factor: float = 1.0
    name = "heteroscedastic_gaussian"
    task = "regression"

    def __post_init__(self) -> None:
        check_positive("min_noise_std", self.min_noise_std)
        check_positive("noise_factor", self.noise_factor)

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the target.

        Args:
            outputs: (..., N, 2C).

        Returns:
            μ and σ, (..., N, C) each.
        """
        means, raw = outputs.chunk(2, dim=-1)
        return means, self.noise_factor * (self.min_noise_std + functional.softplus(raw + SHIFT))

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._terms(outputs, targets)[0].sum(-1)

    def training_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """−log p of each target times its σ^(2β), β = ½, whose gradient is not followed.

        Where the noise is still large, −log p hardly pulls at the mean: a network that widens the
        noise first stops learning the mean there. M. Seitzer and others, "On the pitfalls of
        heteroscedastic uncertainty estimation with probabilistic neural networks", ICLR 2022.
        """
        terms, stds = self._terms(outputs, targets)
        return (stds.detach() ** (2 * BETA) * terms).sum(-1)

    def _terms(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """−log p of each target, and its σ."""
        means, stds = self.moments(outputs)
        return 0.5 * ((targets - means) / stds).square() + stds.log(), stds

    def distribution(self, outputs: Tensor) -> distributions.Normal:
        return distributions.Normal(*self.moments(outputs))

    def constant(self, outputs_per_point: int) -> float:
        return 0.25 * outputs_per_point * math.log(2 * math.pi)

    def output_hessian(self, outputs: Tensor) -> Tensor:
        _, stds = self.moments(outputs)
        slopes = self.noise_factor * torch.sigmoid(outputs.chunk(2, dim=-1)[1] + SHIFT)
        return torch.diag_embed(torch.cat([stds**-2, 2 * (slopes / stds).square()], dim=-1))

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape[-1] % 2:
            raise ValueError(
                "likelihood: HeteroscedasticGaussian needs two outputs for each target, its mean "
                f"and its noise, the model gives {outputs.shape[-1]}; double the last layer"
            )
        return matching_targets(outputs.chunk(2, dim=-1)[0], targets)

    def predictive(self, outputs: Tensor) -> RegressionPredictive:
        return RegressionPredictive(*self.moments(outputs))
