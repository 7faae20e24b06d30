"""Six corruptions of images in five strengths, of our own making; the same pixels in every run.

They are in the spirit of Hendrycks and Dietterich (2019), not their files: no number here can be
compared with CIFAR-10-C.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from real_networks.jpeg import decode_image, encode_image

STRENGTHS = (1, 2, 3, 4, 5)
NOISE = (0.03, 0.06, 0.10, 0.15, 0.22)  # deviation, of a range of 1
BLUR = (0.5, 0.8, 1.1, 1.5, 2.0)  # deviation in pixels
CONTRAST = (0.7, 0.5, 0.35, 0.25, 0.15)  # what is left
FOG = (0.2, 0.35, 0.5, 0.65, 0.8)  # how much of the light is fog's
PIXELS = (26, 20, 16, 12, 8)  # a side
QUALITIES = (50, 30, 20, 12, 7)


def corrupt(pixels: Tensor, kind: str, strength: int) -> Tensor:
    """Bytes (N, 3, 32, 32) after one of `KINDS`, with strength 1 to 5."""
    if kind not in KINDS or strength not in STRENGTHS:
        raise ValueError(f"corruption: one of {', '.join(KINDS)} and 1 to 5, not {kind} {strength}")
    level = strength - 1
    if kind == "jpeg":
        return _recoded(pixels, QUALITIES[level])
    generator = torch.Generator().manual_seed(zlib.crc32(f"{kind} {strength}".encode()))
    light = KINDS[kind](pixels.float() / 255, level, generator)
    return (light.clamp(0, 1) * 255).round().to(torch.uint8)


def _noise(light: Tensor, level: int, generator: torch.Generator) -> Tensor:
    return light + NOISE[level] * torch.randn(light.shape, generator=generator).to(light)


def _blur(light: Tensor, level: int, _: torch.Generator) -> Tensor:
    places = torch.arange(-6, 7).to(light)
    bell = torch.exp(-0.5 * (places / BLUR[level]).square())
    bell = (bell / bell.sum()).view(1, 1, 1, -1).expand(3, 1, 1, -1)
    for turned in (bell, bell.mT):
        high, wide = turned.shape[-2] // 2, turned.shape[-1] // 2
        padded = pad(light, (wide, wide, high, high), mode="reflect")
        light = torch.nn.functional.conv2d(padded, turned, groups=3)
    return light


def _contrast(light: Tensor, level: int, _: torch.Generator) -> Tensor:
    mean = light.mean((1, 2, 3), keepdim=True)
    return mean + CONTRAST[level] * (light - mean)


def _fog(light: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """White light through clouds: noise of four sizes, the coarser the stronger."""
    count, _, height, width = light.shape
    clouds = light.new_zeros(count, 1, height, width)
    for size in (2, 4, 8, 16):
        noise = torch.rand(count, 1, size, size, generator=generator).to(light)
        clouds += interpolate(noise, (height, width), mode="bilinear") / size
    clouds = clouds / clouds.amax((2, 3), keepdim=True)
    thick = FOG[level] * (0.5 + 0.5 * clouds)
    return light * (1 - thick) + thick


def _pixelate(light: Tensor, level: int, _: torch.Generator) -> Tensor:
    small = interpolate(light, (PIXELS[level],) * 2, mode="area")
    return interpolate(small, light.shape[-2:], mode="nearest")


def _recoded(pixels: Tensor, quality: int) -> Tensor:
    images = pixels.permute(0, 2, 3, 1).cpu().numpy()
    out = [decode_image(encode_image(image, quality)) for image in images]
    return torch.as_tensor(np.stack(out)).permute(0, 3, 1, 2).contiguous().to(pixels.device)


KINDS: dict[str, Any] = {
    "noise": _noise,
    "blur": _blur,
    "contrast": _contrast,
    "fog": _fog,
    "pixelation": _pixelate,
    "jpeg": None,
}
