"""What a run is, in a file: compared at every call, so that no store ever holds two runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dims.errors import StoreError
from dims.model.shapes import Vector
from dims.model.training_data import map_inputs
from dims.sampling.draws.signature import constant_hashes, hash_entries, model_entries
from dims.sampling.draws.storage import tensor_bytes
from dims.sampling.files import write_text_atomically
from dims.sampling.store.folder import read_small
from dims.surface.loss import LossSurface

__all__ = ["MANIFEST", "agree", "digest_of", "fingerprint", "read_manifest"]

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 2**20  # bytes; a larger one is not a manifest
MOST_THREADS = 4096


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


def digest_of(manifest: dict[str, Any]) -> str:
    """What marks a chunk as one of this run."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def agree(
    place: Path, wanted: dict[str, Any], writable: bool, current: Callable[[Any], Any]
) -> dict[str, Any]:
    """The manifest of the folder, which must be the wanted one; written where there is none.

    The number of threads alone is taken from the folder: whoever goes on with a run keeps to it.
    `current` turns settings that an earlier version wrote into those of this one.
    """
    wanted = json.loads(json.dumps(wanted))
    path = place / MANIFEST
    if not path.exists() and not path.is_symlink():
        if any(place.glob("chunk_*")):
            raise StoreError(f"{place}: chunks without a manifest; give an empty folder")
        if not writable:
            raise StoreError(f"{place}: cannot be written to; make it writable, or give another")
        write_text_atomically(path, json.dumps(wanted, indent=1))
        return wanted
    found = read_manifest(path)
    threads = found.get("threads")
    if isinstance(threads, int) and not isinstance(threads, bool) and 1 <= threads <= MOST_THREADS:
        wanted["threads"] = threads
    try:
        settings = found.get("settings")
        seen = {**found, "settings": current(settings) if isinstance(settings, dict) else settings}
        different = [key for key in wanted | seen if _text(wanted, key) != _text(seen, key)]
    except RecursionError as error:
        raise StoreError(f"{path}: nested too deeply; give another folder") from error
    if different:
        shown = ", ".join(
            f"{_brief(key)[1:-1]} {_brief(seen.get(key))} there and {_brief(wanted.get(key))} here"
            for key in different[:5]
        )
        raise StoreError(f"{place}: holds another run ({shown}); give another folder")
    return {**wanted, "settings": settings}


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a store."""
    content = read_small(path, LARGEST_MANIFEST)
    if content is None:
        raise StoreError(f"{path}: too large for a manifest, or not a file; give another folder")
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not a valid manifest ({error}); give another folder") from error
    if not isinstance(found, dict):
        raise StoreError(f"{path}: not a valid manifest; give another folder")
    return found


def _text(run: dict[str, Any], key: str) -> str:
    """JSON tells types apart: to Python, true is 1 and 50 is 50.0."""
    return json.dumps(run.get(key), sort_keys=True)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
