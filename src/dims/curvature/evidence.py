"""The Laplace evidence log p(D), and the prior precision and noise that maximise it.

    log p(D) ≈ log p(D|θ*) + log p(θ*) + (K/2)·log 2π − ½·log det P

with every constant, so that it is exact for Bayesian linear regression at its MAP. A tempered
surface (`effective_points` = n) has the likelihood p(D|θ)^(n/N), as if there were n points.
`loss_scale` rescales the loss and leaves the model as it is, so it does not enter.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from dims.curvature import Curvature
from dims.curvature.maximise import best_of_grid, climb
from dims.errors import EvidenceWarning
from dims.model.parameters import ParameterVector
from dims.model.shapes import Vector
from dims.surface.loss import LossSurface

__all__ = ["EvidenceFit", "log_marginal_likelihood", "tune_evidence", "tuned_surface"]

PRIOR_BOUNDS = (1e-6, 1e6)
NOISE_BOUNDS = (1e-4, 1e3)


@dataclass(frozen=True)
class EvidenceFit:
    """The best prior precision and noise, and how they were found.

    Attributes:
        prior_precision: δ, a number, or a vector (K,) for groups.
        noise_std: σ; None where the likelihood has none.
        log_marginal_likelihood: log p(D) there.
        converged: Whether the search ended at a maximum.
        at_bound: Names of what ended at a bound of the search.
        iterations: Of BFGS.
    """

    prior_precision: float | Tensor
    noise_std: float | None
    log_marginal_likelihood: float
    converged: bool
    at_bound: tuple[str, ...]
    iterations: int


def log_marginal_likelihood(
    surface: LossSurface,
    theta: Vector,
    curvature: Curvature,
    prior_precision: float | Tensor | None = None,
    noise_std: float | None = None,
) -> float:
    """log p(D) at θ by Laplace's approximation.

    Args:
        surface: The loss surface with its likelihood.
        theta: θ*, (K,).
        curvature: The curvature of the likelihood part at θ*.
        prior_precision: δ; the surface's when None.
        noise_std: σ; that of the surface's likelihood when None.

    Returns:
        log p(D) in nats, with every constant.

    Raises:
        ValueError: A noise is given that is not positive, or the likelihood has none.
    """
    terms = _Terms(surface, theta, curvature)
    if noise_std is not None and (terms.noise_std is None or not noise_std > 0):
        raise ValueError(
            f"noise_std: must be positive, and the likelihood must have a noise; got "
            f"{noise_std} for {type(surface.likelihood).__name__}"
        )
    prior = surface.prior_precision if prior_precision is None else prior_precision
    delta = torch.as_tensor(prior).to(terms.squares)
    noise = terms.tensor(terms.noise_std if noise_std is None else noise_std)
    precision = curvature.precision(delta, float(terms.curvature_scale(noise)))
    return float(terms.sum(delta, noise, terms.tensor(precision.log_determinant())))


def tune_evidence(
    surface: LossSurface,
    theta: Vector,
    curvature: Curvature,
    *,
    prior: str = "scalar",
    tune_noise: bool = True,
    prior_bounds: tuple[float, float] = PRIOR_BOUNDS,
    noise_bounds: tuple[float, float] = NOISE_BOUNDS,
    max_iterations: int = 300,
) -> EvidenceFit:
    """Maximise log p(D) over the prior precision δ and, where the likelihood has one, the noise σ.

    The search is in log δ and log σ within the bounds: a coarse grid for one δ and σ, then
    projected BFGS; groups start from the scalar optimum. θ stays where it is. An indefinite
    Hessian counts by |H|: as δ falls to −λ, det P → 0 would reward a prior for making P singular.

    Args:
        surface: The loss surface with its likelihood.
        theta: θ*, (K,).
        curvature: The curvature of the likelihood part at θ*.
        prior: "scalar" (one number), "layer" or "tensor" (one for each), "fixed" (the surface's).
        tune_noise: Whether σ is tuned too.
        prior_bounds: Lowest and highest δ.
        noise_bounds: Lowest and highest σ.
        max_iterations: Of each BFGS search.

    Returns:
        The best values and how they were found.

    Raises:
        ValueError: `prior` is unknown, bounds are not ordered, or nothing is left to tune.
    """
    search = _EvidenceSearch(surface, theta, curvature, prior, tune_noise)
    noise_box = _box("noise_bounds", noise_bounds, int(search.with_noise))
    count = search.count
    box = torch.cat([_box("prior_bounds", prior_bounds, min(count, 1)), noise_box])
    found = climb(search.objective, best_of_grid(search.objective, box), box, max_iterations)
    iterations = found.iterations
    if count > 1:
        box = torch.cat([_box("prior_bounds", prior_bounds, count), noise_box])
        start = torch.cat([found.point[:1].expand(count), found.point[1:]])
        found = climb(search.objective, start, box, max_iterations)
        iterations += found.iterations
    prior_precision, noise_std = search.values(found.point)
    evidence = log_marginal_likelihood(surface, theta, curvature, prior_precision, noise_std)
    at_bound = _names_at_bound(found.point, box, count)
    fit = EvidenceFit(prior_precision, noise_std, evidence, found.converged, at_bound, iterations)
    _warn(fit)
    return fit


class _EvidenceSearch:
    """log p(D) as a function of a point (log δ₁, …, log σ)."""

    def __init__(
        self, surface: LossSurface, theta: Vector, curvature: Curvature, prior: str, noise: bool
    ) -> None:
        self._groups = _groups(surface.vector, prior).to(surface.vector.device)
        self.count = int(self._groups.max()) + 1  # 0: the prior is fixed
        self.with_noise = noise and surface.likelihood.noise_std is not None
        if self.count == 0 and not self.with_noise:
            raise ValueError("prior: 'fixed', and no noise to tune; nothing is left to maximise")
        self._surface = surface
        self._terms = _Terms(surface, theta, curvature.absolute())

    def objective(self, point: Tensor) -> Tensor:
        return self._terms.value(*self._unpack(point))

    def values(self, point: Tensor) -> tuple[float | Tensor, float | None]:
        """δ and σ as a user takes them."""
        delta, noise = (tensor.detach() for tensor in self._unpack(point))
        prior = float(delta) if delta.ndim == 0 else delta.to(self._surface.vector.dtype)
        return prior, None if self._terms.noise_std is None else float(noise)

    def _unpack(self, point: Tensor) -> tuple[Tensor, Tensor]:
        values = point.exp().to(self._terms.squares.device)
        noise = values[-1] if self.with_noise else self._terms.tensor(self._terms.noise_std)
        deltas = values[:-1] if self.with_noise else values
        if len(deltas) == 0:
            return self._surface.prior_precision.double(), noise
        return deltas[0] if len(deltas) == 1 else deltas[self._groups], noise


class _Terms:
    """The terms of log p(D) as functions of δ and σ; all that is costly is computed once."""

    def __init__(self, surface: LossSurface, theta: Vector, curvature: Curvature) -> None:
        self._surface = surface
        self._curvature = curvature
        self.noise_std = surface.likelihood.noise_std
        data_only = surface.with_settings(prior_precision=0.0)
        self._misfit = float(data_only.value(theta.unsqueeze(0))) / surface.loss_scale
        self.squares = theta.detach().double().square()

    def tensor(self, number: float | None) -> Tensor:
        return self.squares.new_tensor(1.0 if number is None else number)

    def curvature_scale(self, noise: Tensor) -> Tensor:
        """s of P = s·H + c·δ, for H fitted with another noise."""
        fitted = self._curvature.noise_std
        return torch.ones_like(noise) if fitted is None else (fitted / noise) ** 2

    def value(self, delta: Tensor, noise: Tensor) -> Tensor:
        determinant = self._curvature.log_determinant(delta, self.curvature_scale(noise))
        return self.sum(delta, noise, determinant)

    def sum(self, delta: Tensor, noise: Tensor, log_determinant: Tensor) -> Tensor:
        surface, misfit = self._surface, self.tensor(self._misfit)
        constant = self.tensor(surface.likelihood.constant(surface.outputs))
        if self.noise_std is not None:
            misfit = misfit * (self.noise_std / noise) ** 2
            constant = constant + surface.outputs * (noise / self.noise_std).log()
        likelihood = -misfit - surface.effective_points * constant
        # The (K/2)·log 2π of the formula and that of the prior's density cancel.
        prior = 0.5 * (delta.expand_as(self.squares).log() - delta * self.squares).sum()
        log_scale = surface.size * math.log(surface.loss_scale)
        return likelihood + prior - 0.5 * (log_determinant - log_scale)


def check_structure(prior: str) -> None:
    """Refuse an unknown structure of the prior."""
    if prior not in ("scalar", "layer", "tensor", "fixed"):
        raise ValueError(
            f"prior_structure: {prior!r} is unknown; give one of scalar, layer, tensor, fixed"
        )


def _groups(vector: ParameterVector, prior: str) -> Tensor:
    """The number of the group of each parameter, −1 for none."""
    check_structure(prior)
    if prior == "fixed":
        return torch.full((vector.size,), -1)
    if prior == "scalar":
        return torch.zeros(vector.size, dtype=torch.int64)
    names = [n.rpartition(".")[0] if prior == "layer" else n for n in vector.names]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    members = torch.tensor([numbers[name] for name in names])
    return members.repeat_interleave(torch.tensor(vector.sizes))


def _box(name: str, bounds: tuple[float, float], count: int) -> Tensor:
    low, high = bounds
    if not 0 < low < high < math.inf:
        raise ValueError(f"{name}: expected 0 < lower < upper, got {bounds}")
    return torch.tensor([[math.log(low), math.log(high)]] * count).double().reshape(count, 2)


def _names_at_bound(point: Tensor, box: Tensor, count: int) -> tuple[str, ...]:
    at_bound = ((point - box[:, 0]) < 1e-6) | ((box[:, 1] - point) < 1e-6)
    names = ["prior_precision"] * count + ["noise_std"] * (len(point) - count)
    return tuple(dict.fromkeys(n for n, flag in zip(names, at_bound, strict=True) if flag))


def _warn(fit: EvidenceFit) -> None:
    messages = []
    if fit.at_bound:
        messages.append(
            f"{' and '.join(fit.at_bound)} ended at a bound of the search; the data do not "
            "determine it. Fix it by hand, or widen the bounds if you trust this maximum"
        )
    if not fit.converged:
        messages.append(
            f"no maximum was found in {fit.iterations} iterations; the values are the best seen. "
            "Fix the prior precision by hand, or use prior='scalar'"
        )
    for message in messages:
        warnings.warn(f"evidence: {message}", EvidenceWarning, stacklevel=3)


def tuned_surface(surface: LossSurface, evidence: EvidenceFit) -> LossSurface:
    """The surface under the prior and noise that the evidence chose."""
    likelihood = None
    if evidence.noise_std is not None:
        likelihood = surface.likelihood.with_noise(evidence.noise_std)
    return surface.with_settings(likelihood=likelihood, prior_precision=evidence.prior_precision)
