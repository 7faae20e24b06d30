"""A sampling run in a folder: chunks of draws that survive whatever stops the run.

    manifest.json             what the run is: settings, seed, fingerprints, versions
    chunk_00000.safetensors   draws 0 … n − 1, and so on
    lock                      held by the one process that writes

A chunk is a function of (manifest, its rows) alone: size, precision and number of threads are in
the manifest, so it has the same bits whoever computes it on the same kind of machine. A call with
a store computes what is missing or damaged, and nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from dims.draws import Draws, DrawsFileError, load
from dims.draws.container import ROW_NUMBERS
from dims.draws.signature import constant_hashes, hash_entries, model_entries
from dims.draws.storage import tensor_bytes
from dims.loss_surface import LossSurface
from dims.shapes import Vector
from dims.training_data import map_inputs

__all__ = ["StoreError", "StoreWarning", "fingerprint", "sample_in_store"]

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 2**20  # bytes; a larger one is none of ours
VERSION = 1


class StoreError(ValueError):
    """The folder belongs to another run, is no store, or is in use."""


class StoreWarning(UserWarning):
    """A chunk was damaged or foreign and is computed again."""


def fingerprint(surface: LossSurface, theta: Vector) -> str:
    """sha256 of everything that draws depend on beside settings: network, θ*, data, prior."""
    digest = hashlib.sha256()
    names = surface.vector.names
    digest.update(hash_entries(model_entries(surface.module, names)).encode())
    digest.update(json.dumps(constant_hashes(surface.module, names), sort_keys=True).encode())
    parts = [theta, surface.prior_precision, surface.data.targets]
    map_inputs(parts.append, surface.data.inputs)
    for tensor in parts:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor_bytes(tensor))
    scales = (surface.likelihood, surface.effective_points, surface.loss_scale)
    digest.update(repr(scales).encode())
    return digest.hexdigest()


def sample_in_store(
    folder: str | os.PathLike[str],
    run: dict[str, Any],
    count: int,
    chunk_size: int,
    surface: LossSurface,
    compute: Callable[[int, int], Draws],
) -> Draws:
    """Draws 0 … count − 1, from the folder where they are, else by `compute(first, last)`.

    `run` says what they depend on, in JSON's types; it must be the same at every call.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    manifest = {"version": VERSION, "count": count, "chunk_size": chunk_size, **run}
    manifest = json.loads(json.dumps(manifest))
    with _locked(place):
        _open(place, manifest)
        digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
        chunks = []
        for index, first in enumerate(range(0, count, chunk_size)):
            last = min(first + chunk_size, count)
            path = place / f"chunk_{index:05d}.safetensors"
            mark = {"store_rows": [first, last], "store_run": digest}
            draws = _stored(path, mark, surface)
            if draws is None:
                with _threads(manifest["threads"]):
                    draws = compute(first, last)
                marked = replace(draws, settings={**draws.settings, **mark})
                marked.save(path, overwrite=True)
            chunks.append(draws)
    return _join(chunks)


def _open(place: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a new store, or compare it with that of an old one."""
    path = place / MANIFEST
    if not path.exists():
        if any(place.glob("chunk_*")):
            raise StoreError(f"{place}: chunks without a manifest; give an empty folder")
        draft = place / f".{MANIFEST}.{secrets.token_hex(6)}.part"
        draft.write_text(json.dumps(manifest, indent=1))
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
        return
    if path.stat().st_size > LARGEST_MANIFEST:
        raise StoreError(f"{path}: too large for a manifest; give another folder")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: no manifest ({error}); give another folder") from error
    if not isinstance(found, dict):
        raise StoreError(f"{path}: no manifest; give another folder")
    different = [key for key in (manifest | found) if manifest.get(key) != found.get(key)]
    if different:
        shown = ", ".join(
            f"{key} {_brief(found.get(key))} there and {_brief(manifest.get(key))} here"
            for key in different
        )
        raise StoreError(f"{place}: holds another run ({shown}); give another folder")
    for leftover in place.glob(".*.part"):  # of a process that was killed while it wrote
        leftover.unlink(missing_ok=True)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _stored(path: Path, mark: dict[str, Any], surface: LossSurface) -> Draws | None:
    """The draws of a chunk's file; None, with a warning, where they are not what they must be."""
    if not path.exists():
        return None
    try:
        draws = load(path, surface.module)
        if any(draws.settings.get(key) != value for key, value in mark.items()):
            raise DrawsFileError(f"{path}: of other rows or of another run")
    except (DrawsFileError, OSError) as error:
        warnings.warn(f"{error}: computed again", StoreWarning, stacklevel=4)
        return None
    settings = {key: value for key, value in draws.settings.items() if key not in mark}
    return replace(draws, surface=surface, settings=settings)


def _join(chunks: list[Draws]) -> Draws:
    """One after the other; what does not belong to rows is that of the first."""
    joined: dict[str, Any] = {}
    for name in (field.name for field in fields(Draws)):
        values = [getattr(chunk, name) for chunk in chunks]
        if name in ("parameters", "evaluations", *ROW_NUMBERS):
            joined[name] = torch.cat(values)
        elif name in ("status", "verdict") and values[0] is not None:
            joined[name] = [entry for value in values for entry in value]
    return replace(chunks[0], **joined)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """The store is ours alone inside; the system frees the lock of a process that dies."""
    with (place / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreError(
                f"{place}: another process is writing to it; wait for it, or give another folder"
            ) from error
        yield


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
