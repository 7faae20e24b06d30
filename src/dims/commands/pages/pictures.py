"""Inputs that are images, as PNGs for a page."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from dims.model.training_data import Inputs

__all__ = ["checked_pictures", "is_images", "pictures"]

SMALLEST, LARGEST = 4, 256  # pixels on a side: what looks like an image, and what a page can carry
CHANNELS = (1, 3)
ENCODED = re.compile("[A-Za-z0-9+/]+={0,2}")


def is_images(inputs: Inputs) -> TypeGuard[Tensor]:
    """Whether rows look like images: floats of shape (N, 1 or 3, height, width)."""
    if not isinstance(inputs, Tensor) or inputs.ndim != 4 or not inputs.is_floating_point():
        return False
    sides = inputs.shape[2:]
    return inputs.shape[1] in CHANNELS and all(SMALLEST <= side <= LARGEST for side in sides)


def pictures(
    inputs: Tensor, chosen: Sequence[int], captions: Sequence[Sequence[Any]]
) -> list[list[Any]]:
    """The chosen images with a caption each, in JSON's types.

    Colours are those of the network's inputs, stretched to the darkest and brightest of all images
    that are shown: how they were standardised is not known here.

    Args:
        inputs: Images, (N, C, H, W).
        chosen: Rows to show.
        captions: For each of them what belongs to it.

    Returns:
        Lists of a PNG in base64 and the caption.
    """
    shown = inputs[torch.as_tensor(chosen, device=inputs.device)].detach().float().cpu()
    low, high = shown.amin((0, 2, 3), keepdim=True), shown.amax((0, 2, 3), keepdim=True)
    pixels = (255 * (shown - low) / (high - low).clamp(min=1e-12)).round().byte()
    return [
        [base64.b64encode(_png(image)).decode("ascii"), *caption]
        for image, caption in zip(pixels.permute(0, 2, 3, 1), captions, strict=True)
    ]


def checked_pictures(found: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Pictures that were read from a file, whose PNGs enter addresses of the page.

    Raises:
        ValueError: One is not base64.
    """
    if not all(ENCODED.fullmatch(str(entry[0])) for entry in found):
        raise ValueError("a picture is not in base64")
    return [[str(entry[0]), *entry[1:]] for entry in found]


def _png(image: Tensor) -> bytes:
    """Bytes (H, W, C) as a PNG: https://www.w3.org/TR/png-3/."""
    height, width, channels = image.shape
    lines = image.reshape(height, width * channels)
    filtered = torch.cat([torch.zeros(height, 1, dtype=torch.uint8), lines], dim=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.numpy().tobytes(), 9)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in (*parts, (b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
