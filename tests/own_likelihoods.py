"""Likelihoods as a user would write them: all that is required, and little else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, distributions

import dims


class Poisson(dims.Likelihood):
    """y ~ Poisson(exp f)."""

    name = "own_poisson"

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.exp() - targets * outputs).sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.Poisson:
        return distributions.Poisson(outputs.exp())


class SoftplusPoisson(dims.Likelihood):
    """The same with a link that is not canonical: −log p is not convex in f for every y."""

    name = "softplus poisson"

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        rate = torch.nn.functional.softplus(outputs)
        return (rate - targets * rate.log()).sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.Poisson:
        return distributions.Poisson(torch.nn.functional.softplus(outputs))


@dataclass(frozen=True)
class StudentT(dims.Likelihood):
    """y = f + scale·t with ν degrees of freedom, which is not an exponential family."""

    degrees: float = 4.0
    scale: float = 1.0
    name = "own_student_t"

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        squares = ((targets - outputs) / self.scale).square() / self.degrees
        return 0.5 * (self.degrees + 1) * squares.log1p().sum(-1)

    def distribution(self, outputs: Tensor) -> distributions.StudentT:
        return distributions.StudentT(self.degrees, outputs, self.scale)

    def output_hessian(self, outputs: Tensor) -> Tensor:
        fisher = (self.degrees + 1) / (self.degrees + 3) / self.scale**2
        return fisher * torch.diag_embed(torch.ones_like(outputs))
