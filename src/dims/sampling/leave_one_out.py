"""Approximate leave-one-out scores of a Laplace approximation at a minimum.

The prediction of point i by a posterior that has not seen it follows from one fit. With
S = Jᵢ·P⁻¹·Jᵢᵀ, the gradient gᵢ and the Hessian Λᵢ of −log p(yᵢ|f) at f = f(xᵢ), one Newton step in
function space removes the point:

    f₋ᵢ ~ N(f + C·gᵢ, C),     C = (S⁻¹ − Λᵢ)⁻¹ = S + S·R·(I − R·S·R)⁻¹·R·S,     R = Λᵢ^½

    score = Σᵢ log ∫ p(yᵢ|f₋ᵢ)

It is exact for Bayesian linear regression. Without a Gaussian noise the score of a point is the
mean of that and of log p(yᵢ|E f₋ᵢ): an average over f₋ᵢ hides that the minimum itself is
overconfident. K. Rahnama Rad and A. Maleki, "A scalable estimate of
the out-of-sample prediction error via approximate leave-one-out cross-validation", 2020.

A point that stands m times in the data is left out with its copies: m·gᵢ and m·Λᵢ.

One Newton step is far too short where a network would go elsewhere without the point; `left_out`
checks what was chosen by these scores with points that are really left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from dims.curvature import Curvature, Precision
from dims.curvature.products import jacobian_of_points
from dims.curvature.small_matrices import symmetric_eigen
from dims.model.copies import equal_rows, group_sizes
from dims.model.likelihoods import Gaussian
from dims.model.likelihoods.per_output import GaussianPerOutput
from dims.model.shapes import Vector
from dims.model.training_data import TrainingData
from dims.surface.loss import LossSurface

__all__ = ["LeaveOneOut", "leave_one_out", "unseen_scores"]

SAMPLES = 64  # of f₋ᵢ, the same normal numbers for all candidates
LARGEST_LEVERAGE = 0.95  # beyond, one Newton step amplifies rounding and what a walk has left
MOST_ROWS = 5_000  # of larger data every second, third … point is left out in turn


class LeaveOneOut(NamedTuple):
    """The scores of the points in nats, and what σ should be multiplied with.

    Attributes:
        points: log p(yᵢ | all others) of each point, (n,); with the noise that is best for their
            sum, if a noise is open. Where some points stand for all, theirs count so much more.
        noise_factor: Best σ over the present one, where P is scaled along (δσ² stays); 1 where the
            noise is not open.
    """

    points: Tensor
    noise_factor: float

    @property
    def score(self) -> float:
        """Σᵢ log p(yᵢ | all others)."""
        return float(self.points.sum())


def leave_one_out(
    surface: LossSurface,
    theta: Vector,
    curvature: Curvature,
    open_noise: bool = False,
    smallest_factor: float = 0.0,
) -> LeaveOneOut:
    """The approximate leave-one-out score of the linearised Laplace approximation at θ.

    Args:
        surface: The loss surface with its likelihood and prior.
        theta: A minimum of it, (K,).
        curvature: The curvature of the likelihood part there, H ⪰ 0.
        open_noise: Whether a Gaussian σ takes its best value at this δσ².
        smallest_factor: What an open σ is multiplied with at least.

    Returns:
        The score, and the factor on σ.
    """
    found = _joined(surface, _left_out(surface, theta, curvature.precision_for(surface)))
    share = surface.effective_points / len(found.mean)
    if _is_gaussian(surface):
        points, factor = _gaussian(found, open_noise, smallest_factor)
        return LeaveOneOut(share * points, factor)
    average, at_mean = _sampled(surface, found)
    return LeaveOneOut(share * 0.5 * (average + at_mean), 1.0)


def unseen_scores(
    surface: LossSurface, theta: Vector, curvature: Curvature, data: TrainingData
) -> Tensor:
    """log p of points that a surface does not have, (n,).

    Without a Gaussian noise p is the mean of ∫ p(y|f) and p(y|E f), which is what predictions
    average: widened draws and draws.

    Args:
        surface: The loss surface without the points.
        theta: A minimum of it, (K,).
        curvature: The curvature of its likelihood part there.
        data: The points, as a surface works with them.
    """
    precision = curvature.precision_for(surface)
    found = _joined(surface, _linearised(surface, theta, precision, data))
    if _is_gaussian(surface):
        return _gaussian(found, open_noise=False, smallest=0.0)[0]
    average, at_mean = _sampled(surface, found)
    return torch.logaddexp(average, at_mean) - math.log(2)


class _Outputs(NamedTuple):
    """f ~ N(mean, spread) of n points (n, C), (n, C, C), their Λᵢ of one point and targets."""

    mean: Tensor
    spread: Tensor
    weight: Tensor
    target: Tensor


def _left_out(surface: LossSurface, theta: Vector, precision: Precision) -> Iterator[_Outputs]:
    """All points, or every second, third … one, some at a time."""
    stride = math.ceil(surface.points / MOST_ROWS)
    copies = group_sizes(equal_rows(*surface.data), surface.points)[::stride]
    copies, some = copies.to(theta.device), surface.work.part(slice(None, None, stride))
    for found in _linearised(surface, theta, precision, some):
        here, copies = copies.split([len(found.target), len(copies) - len(found.target)])
        scale = surface.likelihood_scale * here.double().unsqueeze(-1)
        root = _square_root(scale.unsqueeze(-1) * found.weight)
        leverage, vectors = symmetric_eigen(root @ found.spread @ root)
        shrunk = 1 - leverage.clamp(0, LARGEST_LEVERAGE)
        reach = found.spread @ root @ vectors
        spread = found.spread + (reach / shrunk.unsqueeze(-2)) @ reach.mT
        slope = scale * _slope(surface, found.mean, found.target)
        mean = found.mean + (spread @ slope.unsqueeze(-1)).squeeze(-1)
        yield found._replace(mean=mean, spread=spread)


def _linearised(
    surface: LossSurface, theta: Vector, precision: Precision, data: TrainingData
) -> Iterator[_Outputs]:
    """f and S = J·P⁻¹·Jᵀ of any points, some at a time."""
    jacobian = jacobian_of_points(surface)
    # Jᵢ and P⁻¹·Jᵢᵀ live side by side, in float64.
    held = surface.outputs * (4 * 8 * surface.size + surface.bytes_per_point)
    for inputs, targets in data.chunks(max(1, int(surface.memory_budget // held))):
        with sdpa_kernel(SDPBackend.MATH):
            jacobians, outputs = jacobian(theta.detach(), inputs)
        weight = surface.likelihood.curvature_weights(outputs, targets).double()
        rows = jacobians.double().flatten(0, 1)
        solved = precision.solve(rows.to(precision.dtype)).double().view(jacobians.shape)
        yield _Outputs(outputs.double(), jacobians.double() @ solved.mT, weight, targets)


def _joined(surface: LossSurface, parts: Iterator[_Outputs]) -> _Outputs:
    found = _Outputs(*(torch.cat(column) for column in zip(*parts, strict=True)))
    # The scale of the loss is a unit, not a property of the model.
    return found._replace(spread=surface.loss_scale * found.spread)


def _is_gaussian(surface: LossSurface) -> bool:
    return isinstance(surface.likelihood, Gaussian | GaussianPerOutput)


def _slope(surface: LossSurface, outputs: Tensor, targets: Tensor) -> Tensor:
    """∂(−log p)/∂f of each point, (n, C)."""
    with torch.enable_grad():
        leaf = outputs.detach().to(surface.vector.dtype).requires_grad_()
        total = surface.likelihood.negative_log(leaf, targets).sum()
        return torch.autograd.grad(total, leaf)[0].double()


def _square_root(matrices: Tensor) -> Tensor:
    values, vectors = symmetric_eigen(matrices)
    return (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mT


def _gaussian(found: _Outputs, open_noise: bool, smallest: float) -> tuple[Tensor, float]:
    """In closed form: yᵢ ~ N(mean, spread + noise), where a factor c scales both by c²."""
    size = found.mean.shape[-1]
    factors = torch.linalg.cholesky(found.spread + torch.linalg.inv(found.weight))
    errors = (found.target.double() - found.mean).unsqueeze(-1)
    squares = torch.linalg.solve_triangular(factors, errors, upper=False).square().sum((-2, -1))
    best = max(math.sqrt(float(squares.mean()) / size), smallest)
    factor = best if open_noise else 1.0
    constant = 0.5 * size * math.log(2 * math.pi) + size * math.log(factor)
    volume = factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return -(0.5 * squares / factor**2 + volume + constant), factor


def _sampled(surface: LossSurface, found: _Outputs) -> tuple[Tensor, Tensor]:
    """log ∫ p(y|f) by draws of f, with the same normal numbers every time, and log p(y|E f)."""
    points, size = found.mean.shape
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(SAMPLES, points, size, 1, generator=generator, dtype=torch.float64)
    moved = (_square_root(found.spread) @ noise.to(found.mean.device)).squeeze(-1)
    outputs = found.mean + torch.cat([moved, torch.zeros_like(moved[:1])])
    predictive = surface.likelihood.predictive(outputs.to(surface.vector.dtype))
    scores = predictive.log_scores(found.target).double()
    return scores[:-1].logsumexp(0) - math.log(SAMPLES), scores[-1]
