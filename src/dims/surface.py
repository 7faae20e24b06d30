"""Loss surfaces: batched value, gradient and Hessian-vector product of a function of θ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from dims.shapes import RowScalars, RowVectors, Vector

__all__ = ["BaseSurface", "Surface", "check_rows", "check_vectors"]


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


class Surface(BaseSurface):
    """The graph of any differentiable function of a vector, (K,) → scalar.

    `vectorize=False` runs the rows one by one, for functions that `torch.vmap` cannot batch
    (data-dependent branches, calls out of torch).
    """

    def __init__(self, function: Callable[[Vector], Tensor], *, vectorize: bool = True) -> None:
        if not callable(function):
            raise TypeError(
                f"function: expected a function of a vector, got {type(function).__name__}"
            )
        self._function = function
        self._vectorize = vectorize
        self._checked: set[tuple[int, torch.dtype]] = set()

    def value(self, thetas: RowVectors) -> RowScalars:
        check_rows("thetas", thetas)
        with torch.no_grad():
            return self._values(thetas).double()

    def value_and_grad(self, thetas: RowVectors) -> tuple[RowScalars, RowVectors]:
        check_rows("thetas", thetas)
        with torch.enable_grad():
            thetas = thetas.detach().requires_grad_()
            values = self._values(thetas)
            (gradients,) = torch.autograd.grad(values.sum(), thetas)
        return values.detach().double(), gradients

    def grad_and_hvp(
        self, thetas: RowVectors, vectors: RowVectors
    ) -> tuple[RowVectors, RowVectors]:
        check_rows("thetas", thetas)
        check_vectors(thetas, vectors)
        with torch.enable_grad():
            thetas = thetas.detach().requires_grad_()
            values = self._values(thetas)
            return grad_and_hvp_of(values.sum(), thetas, vectors)

    def _values(self, thetas: Tensor) -> Tensor:
        self._check(thetas)
        if self._vectorize:
            return torch.vmap(self._function)(thetas)
        return torch.stack([self._function(theta) for theta in thetas])

    def _check(self, thetas: Tensor) -> None:
        """Once for each size and precision: is the function scalar, real and differentiable?"""
        signature = (thetas.shape[1], thetas.dtype)
        if signature in self._checked:
            return
        with torch.enable_grad():
            theta = thetas[0].detach().clone().requires_grad_()
            value = self._function(theta)
            if not isinstance(value, Tensor) or value.ndim != 0:
                shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ValueError(
                    f"function: must return a scalar tensor, got {shape}; end it with .sum()"
                )
            if not value.dtype.is_floating_point:
                raise TypeError(f"function: must return a real number, got {value.dtype}")
            if not value.requires_grad:
                raise ValueError(
                    "function: its value does not depend on θ differentiably; "
                    "use torch operations only, without .detach() or .item()"
                )
        self._checked.add(signature)


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


def check_rows(name: str, rows: Tensor) -> None:
    """Rows must be a real floating-point tensor (S, K)."""
    if not isinstance(rows, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(rows).__name__}")
    if not rows.is_floating_point():
        raise TypeError(f"{name}: expected floating-point numbers, got {rows.dtype}; use .float()")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"{name}: expected shape (rows, parameters), got {tuple(rows.shape)}")


def check_vectors(thetas: Tensor, vectors: Tensor) -> None:
    """One vector for each row."""
    check_rows("vectors", vectors)
    if vectors.shape != thetas.shape:
        raise ValueError(
            f"vectors: shape {tuple(vectors.shape)} does not match the rows {tuple(thetas.shape)}"
        )
