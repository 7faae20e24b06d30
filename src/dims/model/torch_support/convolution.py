"""Convolutions for many sets of weights at once, as products of matrices.

Where every row has weights of its own, a convolution becomes a grouped one, for which GPU libraries
have slow kernels only. A narrow one is faster as the linear map from a few rows of an image to a
row of the output, although some of the matrix's entries are zero: on an H200 the gradient of LeNet
takes a third of the time (docs/performance.md).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["apply_by_rows", "has_wide_convolutions", "use_matrices"]

LARGEST_WASTE = 4.0  # entries of the matrix to entries that are weights; beyond, zeros cost more
WIDE = 16  # input channels: from here on one row's images keep a GPU busy


def has_wide_convolutions(module: nn.Module) -> bool:
    """Whether many images of one set of weights are as fast as those of several sets at once."""
    convolutions = (nn.Conv2d, nn.Conv3d)
    layers = [layer for layer in module.modules() if isinstance(layer, convolutions)]
    return any(layer.in_channels // layer.groups >= WIDE for layer in layers)


def use_matrices(module: nn.Module) -> None:
    """Let the plain 2-D convolutions of a module multiply by matrices where that pays."""
    for layer in module.modules():
        if type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros":
            layer.__class__ = _MatrixConv2d


class _MatrixConv2d(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        if input.device.type == "cuda" and input.ndim == 4 and self._narrow(input):
            return apply_by_rows(self, input)
        return super().forward(input)

    def _narrow(self, images: Tensor) -> bool:
        if isinstance(self.padding, str):
            return False
        width = images.shape[-1] + 2 * self.padding[1]
        return width <= LARGEST_WASTE * self.kernel_size[1]


def apply_by_rows(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """The layer's output for (N, C, H, W): windows of rows times one matrix."""
    assert not isinstance(layer.padding, str)
    (up, left), (down, across), (gap, spread) = layer.padding, layer.stride, layer.dilation
    images = nn.functional.pad(images, (left, left, up, up))
    high, wide = layer.kernel_size
    rows = (images.shape[2] - gap * (high - 1) - 1) // down + 1
    # Slices, because the gradient of `unfold` is not batched over sets of weights.
    windows = torch.stack(
        [images[:, :, gap * i : gap * i + down * (rows - 1) + 1 : down] for i in range(high)], dim=2
    )
    count, channels, _, _, width = windows.shape  # (N, C, high, rows, W)
    places = _places(width, wide, across, spread).to(images)
    matrix = torch.einsum("ocij,jxy->cixoy", layer.weight, places)
    inputs = windows.permute(0, 3, 1, 2, 4).reshape(count * rows, channels * high * width)
    products = inputs @ matrix.reshape(channels * high * width, -1)
    outputs = products.view(count, rows, layer.out_channels, -1).transpose(1, 2)
    return outputs if layer.bias is None else outputs + layer.bias.view(-1, 1, 1)


def _places(width: int, kernel: int, stride: int, dilation: int) -> Tensor:
    """(kernel, W, columns): 1 where weight j meets pixel x for output column y."""
    columns = (width - dilation * (kernel - 1) - 1) // stride + 1
    weight, pixel = torch.arange(kernel), torch.arange(width)
    column = torch.arange(columns)
    met = column * stride + dilation * weight[:, None, None]
    return pixel[None, :, None] == met
