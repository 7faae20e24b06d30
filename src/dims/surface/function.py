"""The graph of any differentiable function of a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dims.model.shapes import RowScalars, RowVectors, Vector, check_rows, check_vectors
from dims.prediction.showing import Shown
from dims.surface.base import BaseSurface, grad_and_hvp_of

__all__ = ["Surface"]


class Surface(Shown, BaseSurface):
    """The graph of any differentiable function of a vector, z = L(θ).

    Args:
        function: (K,) → scalar tensor, made of torch operations; twice differentiable for "dopri5".
        vectorize: Whether `torch.vmap` batches the rows. False runs them one by one, for functions
            that it cannot batch (data-dependent branches, calls out of torch).

    Raises:
        TypeError: `function` is not callable or, at its first call, does not return real numbers.
        ValueError: At its first call, the function does not return a scalar tensor that depends
            on θ differentiably.

    Example:
        >>> surface = dims.Surface(lambda theta: (theta.square().sum() - 1).square())
        >>> surface.value(torch.tensor([[1.0, 0.0], [2.0, 0.0]]))
        tensor([0., 9.], dtype=torch.float64)
    """

    def __init__(self, function: Callable[[Vector], Tensor], *, vectorize: bool = True) -> None:
        if not callable(function):
            raise TypeError(
                f"function: expected a function of a vector, got {type(function).__name__}"
            )
        self._function = function
        self._vectorize = vectorize
        self._checked: set[tuple[int, torch.dtype]] = set()

    def _facts(self) -> dict[str, Any]:
        return {"function": getattr(self._function, "__name__", type(self._function).__name__)}

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
