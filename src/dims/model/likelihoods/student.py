"""Regression with heavy-tailed noise, which outliers pull less than Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, distributions

from dims.model.likelihoods.base import Likelihood
from dims.model.shapes import check_positive

__all__ = ["StudentT"]


@dataclass(frozen=True, repr=False)
class StudentT(Likelihood):
    """y = f + s·t with ν degrees of freedom: −log p = ½(ν + 1) log(1 + (y − f)²/(νs²)) + const.

    The Fisher information of f is (ν + 1)/((ν + 3)s²), which is positive where the Hessian of an
    outlier is not. The scale is given, not tuned: −log p does not fall as 1/s².

    Args:
        degrees: ν, above 2, so that the noise has a variance, s²ν/(ν − 2).
        scale: s, positive, in the units of the targets.

    Raises:
        ValueError: ν or s is out of range.

    Example:
        >>> posterior = dims.fit(model, (x, y), dims.StudentT(degrees=4.0, scale=0.1))
    """

    degrees: float = 4.0
    scale: float = 1.0
    name = "student_t"

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        if not check_positive("degrees", self.degrees) > 2:
            raise ValueError(f"degrees: must be above 2 for a finite variance, got {self.degrees}")

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        squares = ((targets - outputs) / self.scale).square() / self.degrees
        return 0.5 * (self.degrees + 1) * squares.log1p().sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.StudentT:
        return distributions.StudentT(self.degrees, outputs, self.scale)

    def constant(self, outputs_per_point: int) -> float:
        half = 0.5 * self.degrees
        density = math.lgamma(half) - math.lgamma(half + 0.5)
        density += 0.5 * math.log(self.degrees * math.pi) + math.log(self.scale)
        return outputs_per_point * density

    def output_hessian(self, outputs: Tensor) -> Tensor:
        fisher = (self.degrees + 1) / (self.degrees + 3) / self.scale**2
        return fisher * torch.diag_embed(torch.ones_like(outputs))
