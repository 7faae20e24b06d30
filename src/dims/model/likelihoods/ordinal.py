"""Classes with an order: grades, ratings, stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, distributions
from torch.nn import functional

from dims.model.likelihoods.base import Likelihood
from dims.prediction.ordinal import OrdinalPredictive
from dims.prediction.targets import class_labels

__all__ = ["Ordinal"]


@dataclass(frozen=True)
class Ordinal(Likelihood):
    """One output f and classes 0, …, C−1 between cutpoints: P(y ≤ k) = σ(c_k − f).

        −log p(y = k) = −log σ(c_k − f) − log σ(f − c_{k−1}) − log(1 − e^(c_{k−1} − c_k))

    with c_{−1} = −∞ and c_{C−1} = ∞: the proportional-odds model. Cutpoints are given; train the
    network with `negative_log`, and fix them where your own training learnt them.

    Args:
        cutpoints: c_0 < … < c_{C−2}, one fewer than there are classes.

    Raises:
        ValueError: There are none, or they do not rise.

    Example:
        >>> posterior = dims.fit(model, (x, grades), dims.Ordinal((-1.0, 0.0, 1.0)))   # 0, 1, 2, 3
    """

    cutpoints: Sequence[float]
    name = "ordinal"
    task = "classification"

    def __post_init__(self) -> None:
        given = tuple(float(value) for value in self.cutpoints)
        rising = all(low < high for low, high in pairwise(given))
        if not given or not rising or not all(map(math.isfinite, given)):
            raise ValueError(
                f"cutpoints: expected finite numbers that rise, one fewer than classes, got {given}"
            )
        object.__setattr__(self, "cutpoints", given)

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        index = targets.expand(outputs.shape[:-1]).unsqueeze(-1)
        return -self.log_probabilities(outputs).gather(-1, index).squeeze(-1)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        """log P(y = k | f) of every class.

        Args:
            outputs: (..., N, 1).

        Returns:
            (..., N, C).
        """
        below = functional.logsigmoid(outputs.new_tensor(self.cutpoints) - outputs)  # y ≤ k
        above = functional.logsigmoid(outputs - outputs.new_tensor(self.cutpoints))  # y > k
        gaps = [0.0, *(math.log(-math.expm1(a - b)) for a, b in pairwise(self.cutpoints)), 0.0]
        upper = functional.pad(below, (0, 1))  # log 1 beyond the last cutpoint
        lower = functional.pad(above, (1, 0))
        return upper + lower + outputs.new_tensor(gaps)

    def distribution(self, outputs: Tensor) -> distributions.Categorical:
        return distributions.Categorical(logits=self.log_probabilities(outputs))

    def output_hessian(self, outputs: Tensor) -> Tensor:
        # Σ_k p_k·(∂ log p_k/∂f)², with ∂ log p_k/∂f = σ(f − c_k)·(−1) + σ(c_{k−1} − f).
        cuts = outputs.new_tensor(self.cutpoints)
        slopes = functional.pad(torch.sigmoid(cuts - outputs), (1, 0))
        slopes = slopes - functional.pad(torch.sigmoid(outputs - cuts), (0, 1))
        probabilities = self.log_probabilities(outputs).exp()
        return (probabilities * slopes.square()).sum(-1, keepdim=True).unsqueeze(-1)

    def check_targets(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape[-1] != 1:
            raise ValueError(
                f"likelihood: Ordinal takes one output per point, the model gives "
                f"{outputs.shape[-1]}; use Categorical for a logit of each class"
            )
        return class_labels(targets, outputs.shape[0], classes=len(self.cutpoints) + 1)

    def predictive(self, outputs: Tensor) -> OrdinalPredictive:
        return OrdinalPredictive(self.log_probabilities(outputs))
