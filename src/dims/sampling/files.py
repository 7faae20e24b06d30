"""Files that are written whole or not at all: first beside their place, then moved there."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

__all__ = ["refuse_existing", "write_tensors_atomically", "write_text_atomically"]


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file in UTF-8; an existing one is replaced.

    Args:
        path: The file to write. Its folder must exist.
        text: Its content.

    Raises:
        OSError: The file cannot be written; an existing one is then unchanged.

    Example:
        >>> write_text_atomically(Path("result.json"), json.dumps(result))
    """
    with _moved_to(path, overwrite=True) as draft, draft.open("x", encoding="utf-8") as file:
        file.write(text)


def write_tensors_atomically(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    overwrite: bool = True,
) -> None:
    """Write a safetensors file; the same tensors and metadata give the same bytes.

    Args:
        path: The file to write. Its folder must exist.
        tensors: Its tensors by name; they may lie on any device.
        metadata: Text that is kept beside them.
        overwrite: Whether to replace an existing file.

    Raises:
        FileExistsError: The file exists and `overwrite` is False.
        OSError: The file cannot be written; an existing one is then unchanged.

    Example:
        >>> write_tensors_atomically(Path("weights.safetensors"), model.state_dict())
    """
    own = _without_shared_memory(tensors)
    try:
        with _moved_to(path, overwrite) as draft:
            save_file(own, draft, None if metadata is None else dict(metadata))
            _sort_metadata(draft)
    except SafetensorError as error:
        raise OSError(f"{path}: could not be written ({error})") from error


def refuse_existing(path: Path) -> None:
    """Raise if there is something at the path."""
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists; give another name, or overwrite=True")


def _without_shared_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, and copied where two share memory, which safetensors refuses."""
    own: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        memory = tensor.untyped_storage()
        if memory.data_ptr() in seen or memory.nbytes() != tensor.nbytes:
            tensor = tensor.clone()
        seen.add(memory.data_ptr())
        own[name] = tensor
    return own


def _sort_metadata(path: Path) -> None:
    """Rewrite the header of a safetensors file, whose metadata come in a random order.

    It stays as long as it was: safetensors writes JSON without spaces, and escapes as Python does.
    """
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        if "__metadata__" in header:
            header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        if len(text) <= length:
            file.seek(8)
            file.write(text.ljust(length))


@contextmanager
def _moved_to(path: Path, overwrite: bool) -> Iterator[Path]:
    """A name to write to; what is there at the end is on the disk before it gets its own name."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        yield draft
        _let_read(draft)
        _sync(draft, os.O_RDWR)
        if overwrite:
            draft.replace(path)
        else:
            _move_to_free_place(draft, path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    with suppress(OSError):  # some systems cannot open folders
        _sync(path.parent, os.O_RDONLY)


def _let_read(path: Path) -> None:
    """Who may read the folder may read its file; a folder for all, as /tmp is, does not say."""
    folder = path.parent.stat().st_mode
    if not folder & stat.S_ISVTX:
        with suppress(OSError):  # some file systems have no permissions
            path.chmod(stat.S_IRUSR | stat.S_IWUSR | (folder & (stat.S_IRGRP | stat.S_IROTH)))


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move_to_free_place(draft: Path, path: Path) -> None:
    """Two writers may race for one name; a link, unlike a move, never replaces the first."""
    try:
        os.link(draft, path)
    except OSError:  # the name is taken, or the file system has no links
        refuse_existing(path)
        draft.replace(path)
