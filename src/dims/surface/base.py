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

    Derive from it for a loss that is neither a function of a vector (`Surface`) nor that of a
    network on data (`LossSurface`), and implement the three abstract methods. A row must not depend
    on the others. Values are returned in float64 whatever the precision of θ, because the solvers
    use differences of values.

    Example:
        >>> class Bowl(BaseSurface):  # L = ½‖θ‖²
        ...     def value(self, thetas):
        ...         return 0.5 * thetas.double().square().sum(-1)
        ...     def value_and_grad(self, thetas):
        ...         return self.value(thetas), thetas
        ...     def grad_and_hvp(self, thetas, vectors):
        ...         return thetas, vectors
        >>> dims.integrate(Bowl(), torch.ones(2), torch.zeros(2), max_time=1.0)
    """

    @abstractmethod
    def value(self, thetas: RowVectors) -> RowScalars:
        """L(θ) of each row.

        Args:
            thetas: θ (S, K).

        Returns:
            The losses (S,) in float64; NaN or infinite where the loss is, never an error.
        """

    @abstractmethod
    def value_and_grad(self, thetas: RowVectors) -> tuple[RowScalars, RowVectors]:
        """L(θ) and ∇L(θ) of each row.

        Args:
            thetas: θ (S, K).

        Returns:
            The losses (S,) in float64 and the gradients (S, K) in the precision of θ.
        """

    @abstractmethod
    def grad_and_hvp(
        self, thetas: RowVectors, vectors: RowVectors
    ) -> tuple[RowVectors, RowVectors]:
        """∇L(θ) and ∇²L(θ)·u of each row.

        Args:
            thetas: θ (S, K).
            vectors: u (S, K).

        Returns:
            The gradients and the Hessian-vector products, (S, K) each.
        """

    compiled = False  # whether each number of rows costs a compilation

    def in_one_piece(self, rows: int) -> bool:
        """Whether so many rows are evaluated at once, so that a whole step can be compiled."""
        return True

    def with_compiled_gradient(self) -> BaseSurface:
        """The same surface whose `value_and_grad` is compiled, one piece after the other."""
        return self

    def hessian(self, theta: Vector) -> Tensor:
        """The dense Hessian at one θ, symmetrised: K Hessian-vector products.

        Args:
            theta: θ (K,).

        Returns:
            ∇²L(θ), (K, K).
        """
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
