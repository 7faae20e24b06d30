"""Gradients of one row after the other, each by a plain call of the network.

Where every row has weights of its own, convolutions of all rows at once are grouped ones, which
GPUs compute slowly. One row's images fill the GPU if they are many; then rows gain nothing from
being computed together.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dims.errors import BatchingWarning
from dims.model.torch_support.compiling import compile_for
from dims.model.torch_support.convolution_precision import (
    PRECISIONS,
    REST,
    in_precision,
    rounded,
    with_two_parts,
)
from dims.model.training_data import Inputs, map_inputs, module_arguments

if TYPE_CHECKING:
    from dims.surface.loss import LossSurface

__all__ = ["SingleRows", "channels_last", "even_size"]


class SingleRows:
    """(θ (S, K), inputs, targets) ↦ data terms (S,) in float64 and their gradients (S, K).

    Args:
        surface: Whose network, likelihood and scale are used.
        module: The network from the inputs to the outputs.
        precision: One of `PRECISIONS`.
        compiled: Compile the loss of one row; where that fails, a warning says why and it is
            computed as it is.
    """

    def __init__(
        self, surface: LossSurface, module: nn.Module, precision: str, compiled: bool
    ) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision: one of {', '.join(PRECISIONS)}, got {precision!r}")
        self.surface, self.precision = surface, precision
        self.module, self.split = module, list[str]()
        if precision.endswith("x2"):
            self.module, self.split = with_two_parts(module)
        places = surface.vector.slices()
        self.split = [name for name in self.split if name in places]
        self.in_two = torch.zeros(surface.size, dtype=torch.bool, device=surface.vector.device)
        for name in self.split:
            self.in_two[places[name]] = True
        self._loss = compile_for(surface.vector.device, self._term) if compiled else self._term
        self._proven = not compiled

    def __call__(self, thetas: Tensor, inputs: Inputs, targets: Tensor) -> tuple[Tensor, Tensor]:
        found = [self._row(theta, inputs, targets) for theta in thetas]
        return torch.stack([pair[0] for pair in found]), torch.stack([pair[1] for pair in found])

    def _row(self, theta: Tensor, inputs: Inputs, targets: Tensor) -> tuple[Tensor, Tensor]:
        # The parts are taken apart outside of what is compiled: a compiler that keeps more digits
        # than it was asked to would find no rest.
        theta = theta.detach()
        leaf = torch.where(self.in_two, rounded(theta), theta) if self.split else theta.clone()
        parts = self.surface.vector.unflatten(theta - leaf) if self.split else {}
        rests = {name + REST: parts[name] for name in self.split}
        leaf.requires_grad_()
        with torch.enable_grad(), in_precision(self.precision, theta.device):
            term = self._attempt(leaf, rests, inputs, targets)
            (gradient,) = torch.autograd.grad(term, leaf)
        return term.detach(), gradient

    def _attempt(
        self, leaf: Tensor, rests: dict[str, Tensor], inputs: Inputs, targets: Tensor
    ) -> Tensor:
        try:
            term = self._loss(leaf, rests, inputs, targets)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            if self._proven:
                raise
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            warnings.warn(
                f"model: its gradient could not be compiled ({reason}) and is computed as it is",
                BatchingWarning,
                stacklevel=2,
            )
            self._loss = self._term
            term = self._loss(leaf, rests, inputs, targets)
        self._proven = True
        return term

    def _term(
        self, theta: Tensor, rests: dict[str, Tensor], inputs: Inputs, targets: Tensor
    ) -> Tensor:
        surface = self.surface
        tensors = surface.vector.unflatten(theta) | rests
        arguments = module_arguments(self.module, inputs)
        outputs = surface.arrange(functional_call(self.module, tensors, *arguments))
        terms = surface.likelihood.negative_log(outputs.to(theta.dtype), targets)
        return surface.likelihood_scale * terms.sum(dtype=torch.float64)


def channels_last(inputs: Inputs) -> Inputs:
    """Images laid out as the fast units of a GPU read them."""

    def lay(tensor: Tensor) -> Tensor:
        images = tensor.ndim == 4 and tensor.is_floating_point()
        return tensor.contiguous(memory_format=torch.channels_last) if images else tensor

    return map_inputs(lay, inputs)


def even_size(points: int, most: int) -> int:
    """The largest number up to `most` that divides the points without a rest, if it is not below
    half of `most`: what is compiled for one size is compiled again for the rest."""
    parts = math.ceil(points / most)
    for count in range(parts, 2 * parts + 1):
        if points % count == 0:
            return points // count
    return most
