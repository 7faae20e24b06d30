"""Convolutions for many sets of weights at once, as one product of matrices.

Where every row has weights of its own, a convolution becomes a grouped one, for which GPU libraries
have slow kernels only. A small one is faster as the dense matrix of the linear map that it is,
although most of the entries are zero: on an H200 the gradient of LeNet then takes two thirds of the
time (docs/performance.md).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["apply_as_matrix", "use_matrices"]

LARGEST_MATRIX = 2**20  # entries; beyond, multiplying zeros costs more than the grouping


def use_matrices(module: nn.Module) -> None:
    """Let the plain 2-D convolutions of a module multiply by matrices where that pays."""
    for layer in module.modules():
        if type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros":
            layer.__class__ = _MatrixConv2d


class _MatrixConv2d(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        if input.device.type == "cuda" and input.ndim == 4 and self._small(input):
            return apply_as_matrix(self, input)
        return super().forward(input)

    def _small(self, images: Tensor) -> bool:
        if isinstance(self.padding, str):
            return False
        outputs = self.out_channels
        for side in (0, 1):
            reach = self.dilation[side] * (self.kernel_size[side] - 1) + 1
            length = images.shape[2 + side] + 2 * self.padding[side]
            outputs *= (length - reach) // self.stride[side] + 1
        return images.shape[1:].numel() * outputs <= LARGEST_MATRIX


def apply_as_matrix(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """The layer's output for (N, C, H, W); the matrix's rows are what it makes of unit images."""
    pixels = images.shape[1:].numel()
    units = torch.eye(pixels, dtype=images.dtype, device=images.device)
    responses = layer._conv_forward(units.view(pixels, *images.shape[1:]), layer.weight, None)
    products = images.flatten(1) @ responses.flatten(1)
    outputs = products.view(len(images), *responses.shape[1:])
    return outputs if layer.bias is None else outputs + layer.bias.view(-1, 1, 1)
