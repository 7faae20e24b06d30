"""What every curvature gives: a precision P = s·H + c·δ that can sample, solve and tell log det P.

H is the curvature of the likelihood part of a loss surface at θ*, with its `likelihood_scale`
inside; the prior δ is added afterwards, so that tuning it does not refit anything. c is the
surface's `loss_scale`, which multiplies likelihood and prior alike, and s rescales H when the
Gaussian noise changes: s = (σ_fitted/σ)².
"""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from dims.errors import IndefiniteHessianWarning, NotPositiveDefiniteError
from dims.model.shapes import RowVectors, check_positive, check_prior
from dims.prediction.showing import Shown
from dims.surface.loss import LossSurface

__all__ = ["Curvature", "Kind", "Precision"]

DENSE_FLOAT64_LIMIT = 5_000  # below this size dense algebra in float64 costs next to nothing
REPAIR_FLOOR = 0.1


class Kind(Enum):
    """Which second derivative: the generalised Gauss–Newton matrix, or the exact Hessian."""

    GGN = "ggn"
    HESSIAN = "hessian"


class Precision(Shown, ABC):
    """P = Σ⁻¹ of a centred Gaussian N(0, Σ) over K parameters."""

    def __init__(self, size: int, dtype: torch.dtype, like: Tensor) -> None:
        """`dtype` is that of the draws, `like` has the device and precision of the algebra."""
        self.size = size
        self.dtype = dtype
        self.device, self._working = like.device, like.dtype

    def _facts(self) -> dict[str, Any]:
        return {"parameters": self.size, "dtype": self.dtype}

    def sample(self, count: int, generator: torch.Generator | None = None) -> RowVectors:
        """Draw ε ~ N(0, Σ).

        Args:
            count: Number of draws.
            generator: Source of randomness; torch's global one when None. Noise is drawn on its
                device.

        Returns:
            Draws on the device of P, (count, K).
        """
        device = self.device if generator is None else generator.device
        shape = (count, self.size)
        noise = torch.randn(shape, generator=generator, dtype=self._working, device=device)
        return self.color(noise.to(self.device))

    def color(self, noise: Tensor) -> Tensor:
        """A·z with A·Aᵀ = Σ: standard normal rows become draws of N(0, Σ).

        Args:
            noise: Rows z, (S, K), or one vector (K,).

        Returns:
            The same shape.
        """
        return self._rows("noise", noise, self._color)

    def solve(self, vectors: Tensor) -> Tensor:
        """Σ·u of each row.

        Args:
            vectors: Rows u, (S, K), or one vector (K,).

        Returns:
            The same shape.
        """
        return self._rows("vectors", vectors, self._solve)

    @abstractmethod
    def log_determinant(self) -> float:
        """log det P."""

    @abstractmethod
    def _color(self, noise: Tensor) -> Tensor: ...

    @abstractmethod
    def _solve(self, vectors: Tensor) -> Tensor: ...

    def _rows(self, name: str, rows: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        if rows.ndim not in (1, 2) or rows.shape[-1] != self.size:
            raise ValueError(
                f"{name}: expected shape (rows, {self.size}) or ({self.size},), got "
                f"{tuple(rows.shape)}"
            )
        matrix = rows.to(device=self.device, dtype=self._working).reshape(-1, self.size)
        return function(matrix).to(self.dtype).reshape(rows.shape)


class Curvature(Shown, ABC):
    """H, the curvature of the likelihood part of a surface at one θ.

    `semidefinite` says that H ⪰ 0 by construction (a GGN), so that a negative eigenvalue can only
    be rounding. Without it, P that is not positive definite is repaired as `repaired_ratios` says.
    """

    def __init__(self, surface: LossSurface, semidefinite: bool) -> None:
        self.size = surface.size
        self.dtype = surface.vector.dtype
        self.device = surface.vector.device
        self.loss_scale = surface.loss_scale
        self.noise_std = surface.likelihood.noise_std
        self.semidefinite = semidefinite

    def _facts(self) -> dict[str, Any]:
        return {"parameters": self.size, "dtype": self.dtype}

    @abstractmethod
    def precision(self, prior_precision: float | Tensor, scale: float = 1.0) -> Precision:
        """P = s·H + c·diag(δ).

        Args:
            prior_precision: δ, a number or a vector (K,).
            scale: s, the factor on H for another noise than it was fitted with.

        Returns:
            A Gaussian that can sample, solve and tell log det P.

        Raises:
            NotPositiveDefiniteError: There is no prior in a direction without curvature.
        """

    @abstractmethod
    def log_determinant(self, prior_precision: Tensor, scale: Tensor) -> Tensor:
        """log det(s·H + c·diag(δ)) of H ⪰ 0, differentiable in δ and s.

        Args:
            prior_precision: δ, a 0-d tensor or a vector (K,).
            scale: s, a 0-d tensor.

        Returns:
            A 0-d tensor.
        """

    @abstractmethod
    def absolute(self) -> Curvature:
        """|H|: every eigenvalue of H (or its low-rank part, or diagonal) by its size."""

    @abstractmethod
    def dense(self) -> Tensor:
        """H as a matrix (K, K); for small K."""

    def precision_for(self, surface: LossSurface) -> Precision:
        """P under the surface's present prior and noise, whatever noise H was fitted with.

        Args:
            surface: The surface that H was fitted on, perhaps with another prior or noise.

        Returns:
            `precision` of these values.
        """
        fitted, present = self.noise_std, surface.likelihood.noise_std
        scale = 1.0 if fitted is None or present is None else (fitted / present) ** 2
        return self.precision(surface.prior_precision, scale)

    def _checked(
        self, prior_precision: float | Tensor, scale: float, like: Tensor
    ) -> tuple[Tensor, float]:
        """c·δ, a 0-d tensor or a vector (K,) in the precision of another tensor, and s."""
        prior = self.loss_scale * check_prior(prior_precision, self.size, like)
        return prior, check_positive("scale", scale)

    def _as_semidefinite(self, **changed: Tensor) -> Curvature:
        """A copy with other tensors that make H ⪰ 0."""
        other = copy.copy(self)
        other.__dict__.update(changed, semidefinite=True)
        return other


def wide_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """float64 where the device has it."""
    return dtype if device.type == "mps" else torch.float64


def working_dtype(size: int, dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """float64 for dense matrices where it is cheap, else the surface's precision."""
    return wide_dtype(dtype, device) if size <= DENSE_FLOAT64_LIMIT else dtype


def repaired_ratios(ratios: Tensor, semidefinite: bool) -> Tensor:
    """The eigenvalues 1 + m of D^(−½)·P·D^(−½), D = c·diag(δ), made positive.

    H ⪰ 0: rounding alone made m negative, and 1 + max(m, 0) takes it back. Otherwise
    max(|1 + m|, 0.1): the size of a negative curvature is the scale on which the loss bends, so a
    velocity along it should be as short as along a positive curvature of that size. Clamping it
    at the prior instead would call a direction of curvature −2758 flat and send draws along it
    with the prior's standard deviation, far outside any quadratic model. The floor keeps
    directions where likelihood and prior cancel from velocities far beyond the prior's.
    """
    if semidefinite or len(ratios) == 0:
        return ratios.clamp(min=1.0)
    lowest, count = ratios.min().item(), int((ratios <= 0).sum())
    if count:
        warnings.warn(
            f"Hessian plus prior has {count} of {len(ratios)} eigenvalues that are not positive "
            f"(lowest {lowest:.3g} prior precisions); they are replaced by their absolute values, "
            f"at least {REPAIR_FLOOR} prior precisions. θ is not a minimum of this surface: refine "
            "it first, or use curvature_kind='ggn', which is never indefinite",
            IndefiniteHessianWarning,
            stacklevel=4,
        )
        return ratios.abs().clamp(min=REPAIR_FLOOR)
    return ratios


def log_determinant_of(inner: Tensor, prior: Tensor) -> Tensor:
    """log det of D^(½)·(I + M)·D^(½), D = diag(prior), by a Cholesky factor; NaN if it has none.

    M may be smaller than D: that of another matrix with the same eigenvalues but zeros.
    """
    identity = torch.eye(len(inner), dtype=inner.dtype, device=inner.device)
    factor, failed = torch.linalg.cholesky_ex(identity + inner)
    if failed:
        return inner.new_full((), torch.nan)
    return prior.log().sum() + 2 * factor.diagonal().log().sum()


def no_prior_error(structure: str) -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        f"{structure} curvature: without a prior it has directions of zero or negative curvature, "
        "so no Gaussian belongs to it; give a positive prior_precision"
    )
