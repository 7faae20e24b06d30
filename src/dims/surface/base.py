"""What every solver needs of a loss, and second derivatives by reverse mode."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from dims.model.shapes import RowScalars, RowVectors, Vector

__all__ = ["BaseSurface", "grad_and_hvp_of"]


class BaseSurface(ABC):
    """What every solver needs of a loss: rows θ (S, K) in, S values and gradients out.

    Values come back in float64 whatever the precision of θ, because the solvers live on
    differences of values.
    """

    @abstractmethod
    def value(self, thetas: RowVectors) -> RowScalars:
        """L(θ) of each row."""

    @abstractmethod
    def value_and_grad(self, thetas: RowVectors) -> tuple[RowScalars, RowVectors]:
        """L(θ) and ∇L(θ) of each row."""

    @abstractmethod
    def grad_and_hvp(
        self, thetas: RowVectors, vectors: RowVectors
    ) -> tuple[RowVectors, RowVectors]:
        """∇L(θ) and ∇²L(θ)·u of each row."""

    compiled = False  # whether each number of rows costs a compilation

    def in_one_piece(self, rows: int) -> bool:
        """Whether so many rows are evaluated at once, so that a whole step can be compiled."""
        return True

    def with_compiled_gradient(self) -> BaseSurface:
        """The same surface whose `value_and_grad` is compiled, one piece after the other."""
        return self

    def hessian(self, theta: Vector) -> Tensor:
        """The dense Hessian at one θ, (K, K), symmetrised: K Hessian-vector products."""
        identity = torch.eye(len(theta), dtype=theta.dtype, device=theta.device)
        _, columns = self.grad_and_hvp(theta.expand(len(theta), -1), identity)
        return 0.5 * (columns + columns.T)


def grad_and_hvp_of(total: Tensor, thetas: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Reverse over reverse; rows do not mix, so one scalar total serves them all.

    The fused attention kernels have no second derivative, hence the plain one.
    """
    with sdpa_kernel(SDPBackend.MATH):
        (gradients,) = torch.autograd.grad(total, thetas, create_graph=True)
        if not gradients.requires_grad:  # a linear function
            return gradients, torch.zeros_like(thetas)
        (products,) = torch.autograd.grad((gradients * vectors).sum(), thetas, allow_unused=True)
    if products is None:
        products = torch.zeros_like(gradients)
    return gradients.detach(), products
