"""Whether TF32 is switched off, and spoken of where it is on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from dims.errors import Tf32Warning
from dims.model.torch_support.tf32 import float32_products, warn_of_tf32

GPU = torch.device("cuda")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    yield
    torch.backends.cudnn.allow_tf32 = before[0]
    torch.set_float32_matmul_precision(before[1])


def test_rounded_convolutions_on_a_gpu_are_spoken_of() -> None:
    torch.backends.cudnn.allow_tf32 = True
    with pytest.warns(Tf32Warning, match="allow_tf32 = False"):
        warn_of_tf32(nn.Sequential(nn.Conv2d(1, 2, 3)), GPU, torch.float32)


@pytest.mark.parametrize(
    ("module", "device", "dtype", "allowed"),
    [
        (nn.Conv2d(1, 2, 3), GPU, torch.float32, False),
        (nn.Conv2d(1, 2, 3), GPU, torch.float64, True),
        (nn.Conv2d(1, 2, 3), torch.device("cpu"), torch.float32, True),
        (nn.Linear(1, 2), GPU, torch.float32, True),  # matrix products are exact by default
    ],
)
def test_nothing_is_said_where_nothing_is_rounded(
    module: nn.Module, device: torch.device, dtype: torch.dtype, allowed: bool
) -> None:
    torch.backends.cudnn.allow_tf32 = allowed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_tf32(module, device, dtype)


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="torch before 2.9")
def test_the_newer_settings_of_torch_are_understood() -> None:
    torch.backends.cudnn.allow_tf32 = True
    convolutions = getattr(torch.backends.cudnn, "conv")  # noqa: B009
    before = convolutions.fp32_precision
    convolutions.fp32_precision = "ieee"  # the others stay, and torch cannot speak for all
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_of_tf32(nn.Conv2d(1, 2, 3), GPU, torch.float32)
    finally:
        convolutions.fp32_precision = before


def test_products_are_exact_within_and_as_before_after() -> None:
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    with float32_products():
        assert not torch.backends.cudnn.allow_tf32
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "high"
