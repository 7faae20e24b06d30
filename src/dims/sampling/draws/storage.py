"""Named tensors and a text header in one safetensors file, with a checksum over both."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dims.errors import DrawsFileError
from dims.sampling.files import write_tensors_atomically

__all__ = ["read", "tensor_bytes", "write"]

FORMAT = "dims-draws"
VERSION = "1"

# What safetensors and torch raise on files that are none, by version and kind of damage.
READ_ERRORS = (
    SafetensorError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def write(target: Path, tensors: dict[str, Tensor], header: str, *, overwrite: bool) -> None:
    """Write the file whole or not at all, with a checksum over header and tensors."""
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "header": header,
        "checksum": _checksum(header, tensors),
    }
    write_tensors_atomically(target, tensors, metadata, overwrite=overwrite)


def read(path: Path) -> tuple[str, dict[str, Tensor]]:
    """The header and the tensors, or an error if a single bit is not as it was written."""
    with path.open("rb"):  # a missing or forbidden file is not a damaged one
        pass
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            _check_format(metadata)
            # Copies: a mapped file would change under us, or vanish.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except DrawsFileError:
        raise
    except READ_ERRORS as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DrawsFileError(
            f"no safetensors file, cut short or damaged ({reason}); make it again"
        ) from error
    header = metadata.get("header", "")
    if metadata.get("checksum") != _checksum(header, tensors):
        raise DrawsFileError("damaged: its checksum does not fit its content; make it again")
    return header, tensors


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The numbers of a tensor as they lie in memory."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def _check_format(metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise DrawsFileError("a safetensors file, but not of draws; give one of Draws.save")
    if metadata.get("version") != VERSION:
        raise DrawsFileError(
            f"format version {metadata.get('version')!r}, this dims reads {VERSION!r}; "
            "use the version of dims that wrote it, or a newer one"
        )


def _checksum(header: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\0{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()
