"""A frame of coordinates for each row, in which the stiff directions of its loss are softer.

    θ' = F·φ',     F = R·(I + Uᵀ(s − 1)U),     ∇L̃ = Fᵀ∇L,     M = F⁻ᵀF⁻¹

U (r, K) holds orthonormal directions, s in (0, 1] what each of them is shortened by, and R is
diagonal. A particle that moves in φ on the graph of L̃ moves in θ with the metric G = M + ggᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dims.mechanics.geometry import dot
from dims.model.shapes import RowIntegers, RowScalars, RowVectors
from dims.surface.base import BaseSurface

__all__ = ["Frame", "evaluate"]


@dataclass(frozen=True)
class Frame:
    """F of each row, and when it was last chosen. Without directions F is the identity.

    Attributes:
        basis: U (S, r, K); r = 0 is the euclidean metric.
        softening: s (S, r).
        scale: The diagonal of R (S, K), or (S, 0) for the identity.
        level: f, the curvature to which directions are softened.
        turned: The angle by which the surface normal has turned since F was chosen.
        speed: The speed √(‖θ'‖² + w²) in the euclidean metric.
        refreshes: How often F was chosen.
        number: The number of the draw, for what is random in the choice of F.
    """

    basis: Tensor
    softening: Tensor
    scale: Tensor
    level: RowScalars
    turned: RowScalars
    speed: RowScalars
    refreshes: RowIntegers
    number: RowIntegers

    @staticmethod
    def euclidean(velocity: RowVectors) -> Frame:
        """F = I for as many rows as there are velocities."""
        rows, size = velocity.shape
        zero = velocity.new_zeros(rows, dtype=torch.float64)
        count = torch.zeros_like(zero, dtype=torch.int64)
        none = velocity.new_zeros(rows, 0)
        return Frame(velocity.new_zeros(rows, 0, size), none, none, zero, zero, zero, count, count)

    @property
    def is_euclidean(self) -> bool:
        return self.basis.shape[1] == 0 and self.scale.shape[1] == 0

    def without_basis(self) -> Frame:
        """The same with F = I: what is kept of rows that have ended."""
        return replace(
            self, basis=self.basis[:, :0], softening=self.softening[:, :0], scale=self.scale[:, :0]
        )

    def lift(self, vectors: RowVectors) -> RowVectors:
        """F·φ: from the frame to parameters."""
        if self.is_euclidean:
            return vectors
        return self._scaled(self._stretched(vectors, self.softening - 1))

    def lift_both(self, first: RowVectors, second: RowVectors) -> tuple[RowVectors, RowVectors]:
        """F of two vectors, for little more than that of one: U is what takes time to read."""
        if self.is_euclidean:
            return first, second
        both = torch.stack([first, second], dim=1)
        along = (self.softening - 1).unsqueeze(1) * torch.bmm(both, self.basis.mT)
        lifted = both + torch.bmm(along, self.basis)
        return self._scaled(lifted[:, 0]), self._scaled(lifted[:, 1])

    def pull(self, gradients: RowVectors) -> RowVectors:
        """Fᵀ·g: a gradient in the frame."""
        if self.is_euclidean:
            return gradients
        return self._stretched(self._scaled(gradients), self.softening - 1)

    def lower(self, vectors: RowVectors) -> RowVectors:
        """F⁻¹·θ: from parameters to the frame."""
        if self.is_euclidean:
            return vectors
        plain = vectors if self.scale.shape[1] == 0 else vectors / self.scale
        return self._stretched(plain, 1 / self.softening - 1)

    def raw(self, gradients: RowVectors) -> RowVectors:
        """F⁻ᵀ·g̃: a gradient of the loss from one in the frame."""
        if self.is_euclidean:
            return gradients
        plain = self._stretched(gradients, 1 / self.softening - 1)
        return plain if self.scale.shape[1] == 0 else plain / self.scale

    def euclidean_speed(self, velocity: RowVectors, climb: RowScalars) -> RowScalars:
        """√(‖θ'‖² + w²) of a velocity in the frame."""
        if self.scale.shape[1]:
            lifted = self.lift(velocity)
            return (dot(lifted, lifted) + climb.square()).sqrt()
        along = _products(self.basis, velocity).double()
        less = ((1 - self.softening.double().square()) * along.square()).sum(-1)
        return (dot(velocity, velocity) - less + climb.square()).clamp(min=0).sqrt()

    def _scaled(self, vectors: Tensor) -> Tensor:
        return vectors if self.scale.shape[1] == 0 else vectors * self.scale

    def _stretched(self, vectors: Tensor, factors: Tensor) -> Tensor:
        """v + Uᵀ·(factors·U·v)."""
        along = factors * _products(self.basis, vectors)
        return vectors + torch.bmm(along.unsqueeze(1), self.basis).squeeze(1)


def _products(basis: Tensor, vectors: Tensor) -> Tensor:
    """U·v of each row, (S, r): written as vᵀUᵀ, which CPUs compute several times faster."""
    return torch.bmm(vectors.unsqueeze(1), basis.mT).squeeze(1)


def evaluate(
    surface: BaseSurface, points: Tensor, dtype: torch.dtype, frame: Frame
) -> tuple[Tensor, Tensor]:
    """Loss and gradient in the frame at float64 points, evaluated in the surface's precision.

    In float32 a step moves θ by little more than its rounding, and a steep gradient turns the
    rounding into noise of the loss; to first order it is known, and taken out.
    """
    rounded = points.to(dtype)
    loss, gradient = surface.value_and_grad(rounded)
    if dtype != points.dtype:
        loss = loss + dot(gradient, (points - rounded).to(dtype))
    return loss, frame.pull(gradient)
