"""One image to JPEG bytes and back, by Pillow or, where that is missing, by torchvision."""

from __future__ import annotations

import io

import numpy as np


def encode_image(image: np.ndarray, quality: int) -> bytes:
    """(H, W, 3) bytes as a JPEG with half the colour resolution."""
    try:
        from PIL import Image
    except ImportError:
        import torch
        from torchvision.io import encode_jpeg

        return encode_jpeg(torch.as_tensor(image).permute(2, 0, 1), quality).numpy().tobytes()
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=quality, subsampling=2)
    return stream.getvalue()


def decode_image(data: bytes) -> np.ndarray:
    """(H, W, 3) bytes."""
    try:
        from PIL import Image
    except ImportError:
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        coded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return decode_jpeg(coded, mode=ImageReadMode.RGB).permute(1, 2, 0).numpy()
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
