"""The idx format of the MNIST family, gzipped: a parser that trusts nothing it reads."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

_CHUNK = 1 << 20
# Two zero bytes and the code of unsigned bytes, the one element type in use.
_MAGIC = bytes([0, 0, 8])


def load_idx(path: str | PathLike[str], *, max_bytes: int = 2**30) -> Tensor:
    """The uint8 tensor in a gzipped idx file.

    Layout: two zero bytes, the element type (8, unsigned byte), the number of dimensions, each
    dimension as a big-endian 32-bit integer, the elements. Anything else is a ValueError that
    names the file; at most `max_bytes` elements are read, and memory grows with what the file
    really holds, not with what its header claims.
    """
    path = Path(path)
    try:
        with gzip.open(path, "rb") as stream:
            shape = _read_shape(path, stream)
            size = math.prod(shape)
            if size > max_bytes:
                raise ValueError(
                    f"{path}: the header claims {size} bytes (shape {list(shape)}), more than "
                    f"max_bytes = {max_bytes}"
                )
            # Asking for one byte more finds surplus data and makes gzip verify its own checksum.
            content = _read_at_most(stream, size + 1)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is not a complete gzip file: {error}") from None
    if len(content) != size:
        held = "more" if len(content) > size else str(len(content))
        raise ValueError(f"{path}: shape {list(shape)} needs {size} bytes, the file holds {held}")
    return torch.frombuffer(content, dtype=torch.uint8).reshape(shape)


def _read_shape(path: Path, stream: gzip.GzipFile) -> tuple[int, ...]:
    magic = stream.read(4)
    rank = magic[3] if len(magic) == 4 else 0
    if magic[:3] != _MAGIC or not 1 <= rank <= 4:
        raise ValueError(
            f"{path}: starts with {magic.hex(' ') or 'nothing'}, an idx file of unsigned bytes "
            "with 00 00 08 and 1 to 4 dimensions"
        )
    header = stream.read(4 * rank)
    if len(header) < 4 * rank:
        raise ValueError(f"{path}: ends within the header of {rank} dimensions")
    shape: tuple[int, ...] = struct.unpack(f">{rank}I", header)
    if 0 in shape:
        raise ValueError(f"{path}: holds no data (shape {list(shape)})")
    return shape


def _read_at_most(stream: gzip.GzipFile, limit: int) -> bytearray:
    content = bytearray()
    # In pieces, because read(n) sets aside n bytes at once.
    while len(content) < limit and (chunk := stream.read(min(_CHUNK, limit - len(content)))):
        content += chunk
    return content
